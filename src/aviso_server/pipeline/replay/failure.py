"""Errors of Spark as our own errors, in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from aviso_server.pipeline.replay.options import ReplayFailed
from aviso_server.pipeline.spark.failure import failure_of, read_failure

_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(\S.*)$", re.MULTILINE)


@contextmanager
def spark_failures() -> Iterator[None]:
    """Whatever Spark raises inside becomes ReplayFailed."""
    try:
        yield
    except PySparkException as error:
        raise ReplayFailed(_reason(error)) from error
    except Exception as error:
        # Errors of the JVM are py4j's, which has no common class that we may name.
        if not type(error).__module__.startswith("py4j"):
            raise
        raise ReplayFailed(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Our own error behind it, else the innermost cause."""
    text = str(error)
    known = read_failure(text)
    if known.kind is None and (causes := _CAUSE.findall(text)):
        return str(causes[-1]).strip()
    return failure_of(error).text
