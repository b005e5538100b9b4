"""What a file says of its columns in the log of a Delta table: lowest, highest, nulls."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta


def statistics_json(
    rows: int, ranges: Mapping[str, tuple[object, object]], nulls: Mapping[str, int]
) -> str:
    """Delta's JSON of the number of rows, lowest and highest values, and nulls."""
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {name: _low(low) for name, (low, _) in ranges.items()},
            "maxValues": {name: _high(high) for name, (_, high) in ranges.items()},
            "nullCount": dict(nulls),
        },
        # delta-rs 1.6.6 reads an escaped character beyond U+FFFF as another one.
        ensure_ascii=False,
    )


def _low(value: object) -> object:
    """Delta's statistics know milliseconds: rounded outwards, no row falls out of them."""
    if isinstance(value, datetime):
        return _milliseconds(value)
    return value.isoformat() if isinstance(value, date) else value


def _high(value: object) -> object:
    if isinstance(value, datetime):
        return _milliseconds(value + timedelta(microseconds=-value.microsecond % 1000))
    return _low(value)


def _milliseconds(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
