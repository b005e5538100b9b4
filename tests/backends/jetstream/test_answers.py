"""Messages cut out of the bytes that NATS sends."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aviso_server.backends.jetstream.answers import RawAnswer, stored
from aviso_server.backends.jetstream.client import NatsClient

OURS, OTHERS = 7, 8
FIELDS = "Nats-Stream: S\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %s\r\n"
TIME = "2026-03-04T10:00:00.123456789Z"


class _Client(NatsClient):
    """Notes what it gets, and whether as it came or by way of nats-py."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, bytes, bytes]] = []
        self._answers.divert(OURS, lambda _, head, body: self.seen.append((OURS, head, body)))

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        if sid == OTHERS:
            self.seen.append((OTHERS, headers or b"", data))
        else:
            await super()._process_msg(sid, subject, reply, data, headers)


def sent(number: int, head: bytes, body: bytes) -> bytes:
    """A message on the wire."""
    if not head:
        return b"MSG in.box %d %d\r\n%b\r\n" % (number, len(body), body)
    size = len(head), len(head) + len(body)
    return b"HMSG in.box %d %d %d\r\n%b%b\r\n" % (number, *size, head, body)


MESSAGE = st.tuples(
    st.sampled_from([OURS, OURS, OTHERS]),
    st.sampled_from([b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0 204 EOB\r\n\r\n"]),
    st.sampled_from([b"", b"x" * 40, b"HMSG in.box 7 9 9\r\n"]),
)
PLAIN = st.tuples(st.sampled_from([OURS, OTHERS]), st.just(b""), st.sampled_from([b"", b"MSG "]))


@given(st.lists(MESSAGE | PLAIN, max_size=12), st.lists(st.integers(1, 60), max_size=40))
async def test_messages_come_through_whatever_the_pieces(
    messages: list[tuple[int, bytes, bytes]], sizes: Sequence[int]
) -> None:
    """Ours and others', in their order, however the bytes arrive."""
    client = _Client()
    received = b"".join(sent(*message) for message in messages)
    for size in sizes:
        await client._ps.parse(received[:size])
        received = received[size:]
    await client._ps.parse(received)
    assert client.seen == messages
    assert not client._ps.buf


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8))
@example("a\xa0")
@example(" a ")
def test_properties_are_the_same_read_either_way(text: str) -> None:
    """By one expression, or as headers among others."""
    own = f"Aviso-Event-Type: ev\r\nB:{text}\r\nA: 1\r\nA: 2\r\n"
    head = ("NATS/1.0\r\n" + own + FIELDS % ("ev.n\xa0", 12, TIME) + "\r\n").encode()
    answer = RawAnswer(head, b"{}")
    found, wanted = answer.stored(), stored(answer.headers, b"{}")
    assert found.headers["A"] == "1,2"
    assert found.headers["B"] == text.strip(" \t")
    properties = {name for name in wanted.headers if name.startswith("Nats-")}
    assert found.headers == {k: v for k, v in wanted.headers.items() if k not in properties}
    assert (found.sequence, found.time_ns, found.subject) == (12, wanted.time_ns, "ev.n\xa0")


def test_properties_that_look_otherwise_are_read_as_headers() -> None:
    """In another order, for example."""
    head = f"NATS/1.0\r\nNats-Sequence: 3\r\nNats-Subject: ev.n\r\nNats-Time-Stamp: {TIME}\r\n\r\n"
    assert RawAnswer(head.encode(), b"").stored().sequence == 3


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("NATS/1.0 204 EOB", ("204", "EOB")),
        ("NATS/1.0 404 Message Not Found", ("404", "Message Not Found")),
        ("NATS/1.0 503", ("503", "")),
        ("NATS/1.0", ("", "")),
    ],
)
def test_status(line: str, status: tuple[str, str]) -> None:
    """The code and its description."""
    assert RawAnswer(f"{line}\r\n\r\n".encode(), b"").status == status
