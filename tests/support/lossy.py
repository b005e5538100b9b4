"""A proxy that loses requests or answers on purpose, in a process of its own (support/s3.py).

A request that is lost *before* never reaches the server behind it; one that is lost *after* has had
its effect there, and only the answer is missing. Either way the client sees its connection break.
"""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

CONTROL = "/-/faults"
"""The path by which the proxy itself is spoken to."""

When = Literal["before", "after"]


class Lossy:
    """The proxy, from the tests' side."""

    def __init__(self, url: str) -> None:
        self.url = url

    def lose(
        self, which: int | str, when: When, *, away: bool = False, delay_s: float = 0.0
    ) -> None:
        """Lose one request: the first with this text, or by its number among those that change
        something, counted from now. ``away``: and all requests that follow. Until it is lost every
        request is answered later by ``delay_s``.
        """
        self._tell({"which": which, "when": when, "away": away, "delay_s": delay_s})

    def heal(self) -> list[str]:
        """Lose nothing more, and count from zero; the changing requests since the last time."""
        return self._tell({})

    def _tell(self, plan: dict[str, Any]) -> list[str]:
        asked = urllib.request.Request(  # noqa: S310 - our own process
            f"{self.url}{CONTROL}", data=json.dumps(plan).encode(), method="POST"
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            seen: list[str] = json.load(answer)
        return seen


@contextmanager
def lossy_proxy(url: str) -> Iterator[Lossy]:
    """A proxy in front of a server on loopback."""
    with subprocess.Popen(
        [sys.executable, __file__, url.rpartition(":")[2]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield Lossy(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.stdin.close()  # which ends it
            process.wait(30)


class _Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer in two packets would wait 40 ms for the second
    wbufsize = -1
    upstream = 0
    plan: dict[str, Any] = {}  # noqa: RUF012 - there is one proxy in the process
    seen: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == CONTROL:
            seen, _Proxy.seen, _Proxy.plan = _Proxy.seen, [], json.loads(body)
            self._answer(200, [], json.dumps(seen).encode())
            return
        threading.Event().wait(_Proxy.plan.get("delay_s", 0))  # a slow store
        when = self._fault()
        if when == "before":
            self.close_connection = True
            return
        status, headers, data = self._forward(body)
        if when == "after":
            self.close_connection = True
            return
        self._answer(status, headers, data)

    def _fault(self) -> When | None:
        request, plan = f"{self.command} {self.path}", _Proxy.plan
        if self.command not in ("GET", "HEAD"):
            _Proxy.seen.append(request)
        which = plan.get("which")
        number = which == len(_Proxy.seen) and request == _Proxy.seen[-1]
        if not number and not (isinstance(which, str) and which in request):
            return None
        # What follows never arrives, where the store is to stay away.
        _Proxy.plan = {**plan, "which": "", "when": "before"} if plan["away"] else {}
        when: When = plan["when"]
        return when

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        there = HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            there.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = there.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            there.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        # The length of what a HEAD describes is the server's own.
        told = next((v for k, v in headers if k.lower() == "content-length"), len(data))
        self.send_header("Content-Length", str(told if self.command == "HEAD" else len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Serve until standard input ends."""
    _Proxy.upstream = int(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Proxy)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
