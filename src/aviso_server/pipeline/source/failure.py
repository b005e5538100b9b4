"""The errors of the source, written for those who run the job.

AvisoError
└── SourceError
    ├── BadOption       an option is wrong
    ├── DataLost        notifications that were asked for are no longer kept
    ├── StreamReplaced  the stream ends before the offset: it was recreated
    └── Unreached       the server cannot be reached or refuses us
        └── QuestionRefused  it answers with an error
"""

from aviso_server.core.errors import AvisoError


class SourceError(AvisoError):
    """Reading cannot continue."""


class BadOption(SourceError):
    """An option of the source is wrong; the message names it."""


class DataLost(SourceError):
    """Notifications that were asked for are no longer kept."""

    @classmethod
    def of(cls, event_type: str, first: int, last: int) -> "DataLost":
        """The error for a lost range."""
        return cls(
            f"notifications {first} to {last} of '{event_type}' are no longer kept: retention "
            "removed them before they were read. Set failOnDataLoss to false to skip them"
        )


class StreamReplaced(SourceError):
    """The stream ends before the offset to resume at: it was deleted and recreated."""

    @classmethod
    def of(cls, event_type: str, offset: int, last: int) -> "StreamReplaced":
        """The error for an offset beyond the end."""
        return cls(
            f"the stream of '{event_type}' ends at sequence {last} and the query is to resume at "
            f"{offset}: the stream was recreated, and the query needs a new checkpoint"
        )


class Unreached(SourceError):
    """The server cannot be reached, or does not answer as it should."""


class QuestionRefused(Unreached):
    """The server answers, with a permanent error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
