"""Errors that crossed Spark are known by their class, and fit on a line."""

from aviso_server.lake.storage import LakeFailed
from aviso_server.pipeline.source.failure import DataLost
from aviso_server.pipeline.spark.failure import Failure, failure_of, read_failure

OURS = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING] Failed: \
Traceback (most recent call last):
  File "/x/stream.py", line 3, in partitions
    raise ValueError("x")
ValueError: a cause that is not the point

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/stream.py", line 4, in partitions
aviso_server.pipeline.source.failure.DataLost: notifications 1 to 2 of 'a' are no longer kept
 SQLSTATE: 38000
"""


def test_our_errors_keep_their_class() -> None:
    """The last one of ours in the text is the one that ended the query."""
    told = Failure("notifications 1 to 2 of 'a' are no longer kept", DataLost)
    assert read_failure(OURS) == told
    assert failure_of(LakeFailed("full\nError: 28")) == Failure("full", LakeFailed)


def test_names_that_only_look_like_ours_are_not_believed() -> None:
    """A class that is not there, or is no error of ours, is text like any other."""
    for name in ("aviso_server.nowhere.Lost", "aviso_server.lake.layout.Place"):
        assert read_failure(f"Traceback (most recent call last):\n{name}: x").kind is None


def test_other_errors_are_reported_in_one_line() -> None:
    """Python's by the last line of the traceback, Java's by the first line."""
    python = (
        "Boom: Traceback (most recent call last):\n  File x\n    y\nbuiltins.OSError: no space\n"
    )
    assert read_failure(python) == Failure("OSError: no space")
    assert read_failure("[CANNOT] The thing broke.\n\tat java.x") == Failure("The thing broke.")
    py4j = "An error occurred while calling o1.start.\n: org.a.B: [X_Y] Not there. z\n\tat q"
    assert read_failure(py4j) == Failure("Not there. z")
    assert read_failure("").text
