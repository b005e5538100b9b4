"""Short HTTP requests to a server, for code that runs in threads rather than on an event loop."""

import ssl
from dataclasses import dataclass

import urllib3


class Unanswered(Exception):
    """No answer came: it is unknown whether the server has done what it was asked to."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What the server answered."""

    status: int
    body: bytes
    retry_after_s: float = 0.0


class HttpServer:
    """One server, over connections that are kept open; usable from several threads.

    Nothing is tried again here, and no redirect is followed: what a failure means differs from
    request to request, and credentials go to the address they were given for.
    """

    def __init__(
        self, url: str, *, authorization: str | None = None, timeout_s: float, connections: int = 1
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {} if authorization is None else {"Authorization": authorization}
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            retries=False,
            # Of https only: the certificates this machine trusts, and the name checked.
            ssl_context=ssl.create_default_context() if url.startswith("https:") else None,
        )

    def get(self, path: str) -> HttpReply:
        """The answer, whatever its status; Unanswered."""
        return self._request("GET", path, None)

    def post(self, path: str, body: bytes) -> HttpReply:
        """The answer to a JSON body, whatever its status; Unanswered."""
        return self._request("POST", path, body)

    def close(self) -> None:
        """Close the connections; no thread may be using them any more."""
        self._pool.clear()

    def _request(self, method: str, path: str, body: bytes | None) -> HttpReply:
        headers = self._headers
        if body is not None:
            headers = {**headers, "Content-Type": "application/json"}
        try:
            response = self._pool.request(
                method, self._url + path, body=body, headers=headers, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unanswered(f"no answer: {str(error) or type(error).__name__}") from None
        after = response.headers.get("Retry-After", "")
        return HttpReply(response.status, response.data, float(after) if after.isdecimal() else 0.0)
