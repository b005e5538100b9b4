"""Answers, taken straight from the bytes that NATS sends.

For every message nats-py makes an object, parses headers in a coroutine, and passes it through a
queue to a task. That was more than half of the time of a replay out of JetStream. Here the messages
of one subscription are cut out of the received bytes and handed over as they are; all others go
the usual way.
"""

import re
from collections.abc import Callable, Mapping

import msgspec
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

from aviso_server.backends.jetstream.messages import Stored
from aviso_server.core.moment import time_ns

_BLANKS = " \t"
_BEGIN = b"\r\nNats-Stream: "
_PROPERTIES = re.compile(
    rb"\r\nNats-Stream: [^\r\n]*"
    rb"\r\nNats-Subject: ([^\r\n]*)"
    rb"\r\nNats-Sequence: (\d+)"
    rb"\r\nNats-Time-Stamp: ([^\r\n]*)\r\n"
)
"""What the server writes behind the headers of a message, since 2.11."""

Take = Callable[[bytes, bytes, bytes], None]
"""Gets subject, headers and body of a message."""


class RawAnswer(msgspec.Struct, frozen=True, gc=False):
    """One message as it came."""

    head: bytes
    """With its first line; empty if it came without."""
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """All of them, by name."""
        return read_fields(self.head.partition(b"\r\n")[2])

    def stored(self) -> Stored:
        """The stored message that it carries: its headers, its properties, its body."""
        head = self.head
        at = head.rfind(_BEGIN)
        properties = _PROPERTIES.match(head, at) if at >= 0 else None
        if properties is None:
            return stored(self.headers, self.body)
        subject, sequence, time = properties.groups()
        return Stored(
            int(sequence),
            time_ns(time.decode()),
            subject.decode(errors="replace"),
            read_fields(head[head.find(b"\r\n") : at]),
            self.body,
        )

    @property
    def status(self) -> tuple[str, str]:
        """The code and the description of an answer that is not a stored message."""
        if not self.head:
            return "", ""
        line = self.head.partition(b"\r\n")[0].decode(errors="replace")
        code, _, text = line.removeprefix("NATS/1.0").strip(_BLANKS).partition(" ")
        return code, text


class AnswerParser(Parser):
    """nats-py's parser, but for the messages of one subscription."""

    diverted: int | None = None
    """Its number."""
    take: Take
    _mark: bytes

    def divert(self, number: int, take: Take) -> None:
        """Hand the messages of a subscription over from now on."""
        self.diverted, self.take, self._mark = number, take, b"%d" % number

    async def parse(self, data: bytes = b"") -> None:
        """Hand over what is at the beginning, and leave the rest to nats-py.

        Behind a message of others nats-py gets some to hand over, too: see ``NatsClient``.
        """
        if self.diverted is not None and self.state == AWAITING_CONTROL_LINE:
            self.buf += data
            if self._hand_over():
                return
            data = b""
        await super().parse(data)

    def _hand_over(self) -> bool:
        """Whether all there is now was handed over, but for a message that is incomplete."""
        received, at = bytes(self.buf), 0
        while received.startswith((b"HMSG ", b"MSG "), at):
            line_end = received.find(b"\r\n", at)
            if line_end < 0:
                break
            # Kind, subject, subscription, the subject to reply to if any, of HMSG the length of the
            # headers, length of all.
            fields = received[at:line_end].split()
            if fields[2] != self._mark:
                break
            begin = line_end + 2
            head_end = begin + int(fields[-2]) if fields[0] == b"HMSG" else begin
            end = begin + int(fields[-1])
            if end + 2 > len(received):
                del self.buf[:at]
                return True
            self.take(fields[1], received[begin:head_end], received[head_end:end])
            at = end + 2
        del self.buf[:at]
        return not self.buf


def stored(headers: Mapping[str, str], body: bytes) -> Stored:
    """A message as a direct get returns it: its properties are in headers."""
    return Stored(
        int(headers["Nats-Sequence"]),
        time_ns(headers["Nats-Time-Stamp"]),
        headers["Nats-Subject"],
        headers,
        body,
    )


def read_fields(raw: bytes) -> dict[str, str]:
    """Headers by name; repeated values joined with ``,``.

    Only ASCII blanks around a value belong to the protocol. Any other white space belongs to the
    value: a subject may end with a no-break space, and must be read as sent.
    """
    headers: dict[str, str] = {}
    for line in raw.decode(errors="replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            name, value = name.strip(_BLANKS), value.strip(_BLANKS)
            headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers
