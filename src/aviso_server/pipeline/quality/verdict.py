"""What became of expectations, and where it is kept. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from aviso_server.core.json import compact
from aviso_server.lake.layout import TIME

TABLE_NAME = "quality"
"""The table in the lake that keeps every check."""

TABLE = pa.schema(
    [
        pa.field("checked_at", TIME, nullable=False),
        pa.field("since", TIME, nullable=False),
        pa.field("event_type", pa.string(), nullable=False),
        pa.field("expectation", pa.string(), nullable=False),
        pa.field("expected", pa.string(), nullable=False),
        pa.field("checked", pa.int64(), nullable=False),
        pa.field("unexpected", pa.int64(), nullable=False),
        pa.field("example", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class QualityVerdict:
    """One expectation of one event type."""

    event_type: str
    expectation: str
    """Such as ``values.step``: where it is declared."""
    expected: str
    checked: int
    """Notifications or cycles that could be checked."""
    unexpected: int
    example: str | None = None
    """The id of a notification, or a cycle, that is not as expected."""

    @property
    def payload(self) -> str:
        """What an alert says of it."""
        return compact(
            {
                "expected": self.expected,
                "checked": self.checked,
                "unexpected": self.unexpected,
                "example": self.example,
            }
        ).decode()


def as_table(
    verdicts: Sequence[QualityVerdict], *, checked_at: datetime, since: datetime
) -> pa.Table:
    """Rows of the table."""
    rows = [
        {
            "checked_at": checked_at,
            "since": since,
            **{name: getattr(item, name) for name in TABLE.names[2:]},
        }
        for item in verdicts
    ]
    return pa.Table.from_pylist(rows, schema=TABLE)
