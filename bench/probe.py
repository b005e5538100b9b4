"""A process that asks for /health again and again, each time over a new connection, as probes do.

It is a process of its own so that what it measures is the server, not the load beside it.

    python bench/probe.py PORT        until its standard input ends; one line per answer
"""

import http.client
import json
import select
import sys
import time

EVERY_S = 0.1
PATIENCE_S = 30


def main(port: str) -> None:
    """Probe until the input ends."""
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        began_at = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
        try:
            connection.request("GET", "/health")
            status = connection.getresponse().status
        except OSError:
            status = 0
        finally:
            connection.close()
        print(json.dumps([began_at, time.monotonic() - began_at, status]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
