"""How readers travel to other machines, so that a missing installation is a clear error.

Spark pickles readers by the names of their classes. Where the package is not installed, unpickling
fails with a bare ``ModuleNotFoundError`` deep inside Spark's worker. ``unpack`` travels by value
instead, needs nothing but Python, and says what to do.
"""

import pickle
import sys

from pyspark import cloudpickle


class Parcel:
    """Pickles as ``unpack`` and the state it is to unpack."""

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        """What pickle and cloudpickle ask for."""
        return unpack, (pickle.dumps((type(self), self.__dict__)),)


def unpack(content: bytes) -> object:
    """The object, or an error that says what is missing on this machine."""
    try:
        kind, state = pickle.loads(content)  # noqa: S301 - Spark's own channel, as all of its tasks
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"aviso-server cannot be used on this Spark executor ({error}). Install the same "
            "version of aviso-server in the Python of every executor, or send an environment that "
            "has it with --archives (docs/source.md)"
        ) from error
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
