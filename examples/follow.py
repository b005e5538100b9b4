"""Follow an event type indefinitely: reconnect, and resume with the next sequence.

    python examples/follow.py http://127.0.0.1:8000 extreme_event '{"severity": {"gte": 4}}'

Prints one CloudEvent per line. Standard library only: it shows what a client has to do. For real
work use pyaviso, which also keeps its position across restarts.
"""

import json
import sys
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

SILENCE_S = 90
"""Three default heartbeat intervals: a stream that is silent for longer is dead."""


def frames(url: str, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The frames of one connection: event name and data."""
    request = Request(url, data=json.dumps(body).encode(), method="POST")  # noqa: S310
    name = ""
    with urlopen(request, timeout=SILENCE_S) as response:  # noqa: S310
        for line in response:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)


def follow(server: str, event_type: str, identifier: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every matching notification from now on, in order, across any number of connections."""
    position: dict[str, str] = {}
    while True:
        body = {"event_type": event_type, "identifier": identifier, **position}
        try:
            for name, data in frames(f"{server}/api/v1/watch", body):
                if "specversion" in data:
                    yield data
                    position = {"from_id": str(data["sequence"] + 1)}
                elif not position:
                    # Nothing received yet: if the connection breaks, resume from here.
                    position = {"from_date": data["timestamp"]}
                elif name == "error" or data.get("type") == "history_gap":
                    print(data, file=sys.stderr)
        except HTTPError as refused:
            if refused.code < 500:
                raise SystemExit(refused.read().decode()) from refused
        except (OSError, HTTPException) as broken:
            print(f"connection lost: {broken}", file=sys.stderr)
        time.sleep(1)  # noqa: TID251 - a client that reconnects without a pause is a nuisance


if __name__ == "__main__":
    for event in follow(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])):
        print(json.dumps(event), flush=True)
