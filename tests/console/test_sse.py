"""The reader of server-sent events: from pieces of text, or bytes, to frames."""

import json
from itertools import pairwise, product
from typing import Any, AnyStr

from hypothesis import given
from hypothesis import strategies as st
from support.browser import Tab

PUSH = """async ({pieces, limit}) => {
  const { Frames } = await import("/static/console/stream/sse.js");
  const frames = new Frames(limit === null ? {} : { limit });
  try {
    return pieces.flatMap((piece) => frames.push(piece));
  } catch (error) {
    return error.message;
  }
}"""

BATCHES = """async ({pieces, cut}) => {
  const { batches } = await import("/static/console/stream/sse.js");
  let cancelled = false;
  const body = new ReadableStream({
    pull(controller) {
      const piece = pieces.shift();
      if (piece !== undefined) controller.enqueue(new Uint8Array(piece));
      else if (cut) controller.error(new TypeError("network error"));
      else controller.close();
    },
    cancel() { cancelled = true; },
  }, { highWaterMark: 0 });
  const seen = [];
  let heard = 0;
  try {
    for await (const frames of batches(new Response(body), () => { heard += 1; })) {
      seen.push(frames);
      if (frames.some((frame) => frame.data === "enough")) break;
    }
  } catch (error) {
    seen.push(error.message);
  }
  return { seen, heard, cancelled, left: pieces.length };
}"""


def pushed(page: Tab, pieces: list[str], limit: int | None = None) -> Any:
    """The frames of a text in pieces, or the words of the error."""
    return page.page.evaluate(PUSH, {"pieces": pieces, "limit": limit})


def read(page: Tab, pieces: list[bytes], *, cut: bool = False) -> Any:
    """What comes of an answer whose body arrives in these pieces."""
    return page.page.evaluate(BATCHES, {"pieces": [list(piece) for piece in pieces], "cut": cut})


def pieces_of(whole: AnyStr, cuts: list[int]) -> list[AnyStr]:
    """The text, cut at these places."""
    places = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    return [whole[start:end] for start, end in pairwise(places)]


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)
LINES = st.one_of(
    st.just(": a comment"),
    st.just("id: 7"),
    st.just("retry: 10"),
    st.just("data"),
    st.just("data: 1"),
    st.just("data:  2"),
    st.just('data:{"a":'),
    st.just("data: 3}"),
    st.just("event"),
    st.builds("event: {}".format, WORDS),
    st.builds(lambda word: f"data: {json.dumps(word, ensure_ascii=False)}", WORDS),
    st.just(""),
)
TEXTS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=30).map(
    lambda lines: "".join(line + end for line, end in lines)
)


@given(TEXTS, st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_any_chunking(page: Tab, text: str, cuts: list[int], mark: bool) -> None:
    """However the text is cut, the frames are the same, and so is the refusal of bad JSON."""
    whole = ("\ufeff" if mark else "") + text
    expected = pushed(page, [whole])
    assert pushed(page, pieces_of(whole, cuts)) == expected
    assert pushed(page, list(whole)) == expected


@given(
    st.lists(st.tuples(WORDS.filter(bool), WORDS), max_size=10),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 600), max_size=12),
)
def test_round_trip(page: Tab, sent: list[tuple[str, str]], end: str, cuts: list[int]) -> None:
    """What is sent is what is read, with any line end."""
    text = "".join(
        f"event: {name}{end}data: {json.dumps(data, ensure_ascii=False)}{end}{end}"
        for name, data in sent
    )
    expected = [{"event": name, "data": data} for name, data in sent]
    assert pushed(page, pieces_of(text, cuts)) == expected


NOT_JSON = "A frame of the stream is not JSON."
FRAMING: dict[str, str | list[tuple[str, Any]]] = {
    'event: heartbeat\ndata: {"a":1}\n\n': [("heartbeat", {"a": 1})],
    "data: 1\n\n": [("message", 1)],
    "event: x\ndata: 1\n\ndata: 2\n\n": [("x", 1), ("message", 2)],
    "data: [1,\ndata: 2]\n\n": [("message", [1, 2])],
    'data: "a\ndata: b"\n\n': NOT_JSON,
    "event: x\n\ndata: 1\n\n": [("message", 1)],
    ": nothing\n\n:\n\n": [],
    "data: 1\n: within\nid: 4\nretry: 5\nother: 6\n\n": [("message", 1)],
    "data: 1\n": [],
    "data: 1\n\ndata: 2": [("message", 1)],
    "data:1\r\rdata:2\r\n\r\ndata:3\n\n": [("message", 1), ("message", 2), ("message", 3)],
    "\ufeffdata: 1\n\n": [("message", 1)],
    "data: 1\n\n\ufeffdata: 2\n\n": [("message", 1)],
    "data\n\n": NOT_JSON,
    "data: nope\n\n": NOT_JSON,
    " data: 1\n\n": [],
}


def test_framing(page: Tab) -> None:
    """Lines, names, comments and ends of frames are understood as browsers do."""

    def found(text: str) -> str | list[tuple[str, Any]]:
        got = pushed(page, [text])
        return got if isinstance(got, str) else [(frame["event"], frame["data"]) for frame in got]

    assert {text: found(text) for text in FRAMING} == FRAMING


def test_limit(page: Tab) -> None:
    """No line grows over the limit, whether it ends or not; up to it all is well."""
    for line, end in product(("data: ", "event: ", ": "), ("\n\n", "")):
        fitting = line + "1" * (64 - len(line))
        for pieces in ([fitting + end], list(fitting + end)):
            assert isinstance(pushed(page, pieces, 64), list)
        for pieces in ([fitting + "1" + end], list(fitting + "1" + end)):
            assert "longer than 64" in pushed(page, pieces, 64)


def test_limit_is_of_one_frame(page: Tab) -> None:
    """Many lines of data count together; a new frame starts from zero."""
    assert len(pushed(page, ["data: 12345\n\n"] * 50, 64)) == 50
    assert "longer than 64" in pushed(page, ["data: 12345\n"] * 50, 64)
    assert "longer than 64" in pushed(page, ["data\n"] * 100, 64)


@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(st.integers(0, 300), max_size=8))
def test_bytes(page: Tab, words: list[str], cuts: list[int]) -> None:
    """Characters that are cut in two arrive whole; no array is empty."""
    body = "".join(f"data: {json.dumps(word, ensure_ascii=False)}\n\n" for word in words).encode()
    got = read(page, [b"\xef\xbb", b"\xbf", *filter(None, pieces_of(body, cuts))])
    assert all(got["seen"])
    assert [frame["data"] for frames in got["seen"] for frame in frames] == words


def test_batches_follow_the_pieces(page: Tab) -> None:
    """The frames of one piece come together; every piece is heard, also one without a frame."""
    got = read(page, [b"data: 1\n\ndata: 2\n\n", b": still here\n", b"data: ", b"3\n\n"])
    assert [[frame["data"] for frame in frames] for frames in got["seen"]] == [[1, 2], [3]]
    assert got["heard"] == 4


def test_a_broken_body(page: Tab) -> None:
    """A connection that breaks hands out what came before, and then the error."""
    got = read(page, [b"data: 1\n\n"], cut=True)
    assert got["seen"] == [[{"event": "message", "data": 1}], "network error"]


def test_leaving_closes(page: Tab) -> None:
    """Who leaves the loop closes the connection; nothing more is read."""
    got = read(page, [b'data: "enough"\n\n', b"data: 2\n\n"])
    assert got["cancelled"]
    assert got["left"] == 1
