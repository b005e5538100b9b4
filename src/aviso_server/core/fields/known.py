"""Canonical texts that were worked out before.

Producers send the same few words, dates and steps again and again, and a look at a dictionary takes
a tenth of the time of reading a date. Values come from clients, so what is kept is bounded.
"""

from aviso_server.core.fields.field import ScalarField, scalar_text
from aviso_server.core.json import Json

MAX_TEXTS = 1024
"""Kept of one field; then all are forgotten, for there is no telling which are still used."""
MAX_LENGTH = 64
"""Characters of a text that is kept."""


class KnownTexts(dict[Json, str]):
    """The canonical text of a value of one field: ``texts[value]``, or InvalidRequest.

    Only texts are kept: ``1``, ``1.0`` and ``true`` are one key to a dictionary, but not one value.
    TypeError for objects and arrays, which have no place in a dictionary.
    """

    __slots__ = ("_field",)

    def __init__(self, field: ScalarField) -> None:
        super().__init__()
        self._field = field

    def __missing__(self, value: Json) -> str:
        """Work it out."""
        if not isinstance(value, str):
            return self[scalar_text(self._field.name, value)]
        canonical = self._field.canonical(value)
        if len(value) <= MAX_LENGTH:
            if len(self) >= MAX_TEXTS:
                self.clear()
            self[value] = canonical
        return canonical
