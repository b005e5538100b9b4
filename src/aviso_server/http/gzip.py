"""What goes over the wire: HTTP chunks, and streams compressed with gzip, shared where possible.

Compression (docs/protocol.md#compression):

A gzip stream is a header, deflate blocks and a trailer. Blocks made behind a full flush refer to
nothing before them, so the blocks of a chunk fit into every stream. One compressor therefore serves
all streams, and a stream only keeps what its trailer needs. The flush also ends at a whole byte:
a client can decode every write as soon as it arrives.

Compressing each stream by itself would make single frames ten times as small instead of one and a
half times, but takes 256 KiB for each watcher, and microseconds for each of its notifications.
"""

import zlib
from collections.abc import Iterable

from aviso_server.relay.subscription import Chunk

LAST_CHUNK = b"0\r\n\r\n"

_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""Deflate, no name, no time, system unknown."""

_LAST_BLOCK = b"\x03\x00"

_compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)


class Gzip:
    """The state of one compressed stream."""

    __slots__ = ("_checksum", "_size")

    def __init__(self) -> None:
        self._checksum = 0
        self._size = 0

    def own(self, frames: bytes) -> bytes:
        """Frames for this stream only; the first of them with the header."""
        header = b"" if self._size else _HEADER
        self._count(frames)
        return header + _blocks(frames)

    def chunk(self, chunk: Chunk) -> bytes:
        """A chunk on the wire, compressed by the first connection that gets it, for all of them."""
        frames = chunk.frames
        self._count(frames)
        if chunk.compressed is None:
            chunk.compressed = chunk_of(_blocks(frames))
        return chunk.compressed

    def end(self) -> bytes:
        """The last block and the trailer."""
        trailer = (self._checksum, self._size & 0xFFFFFFFF)
        return _LAST_BLOCK + b"".join(number.to_bytes(4, "little") for number in trailer)

    def _count(self, frames: bytes) -> None:
        self._checksum = zlib.crc32(frames, self._checksum)
        self._size += len(frames)


def _blocks(frames: bytes) -> bytes:
    return _compressor.compress(frames) + _compressor.flush(zlib.Z_FULL_FLUSH)


def accepts_gzip(values: Iterable[str]) -> bool:
    """Whether ``Accept-Encoding`` names gzip; ``*`` does not ask for anything."""
    for item in ",".join(values).split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        if name in ("gzip", "x-gzip"):
            weights = [text[2:].strip() for text in parameters if text.startswith("q=")]
            return not weights or weights[0].strip("0.") != ""
    return False


def encode(chunk: Chunk, gzip: Gzip | None) -> bytes:
    """The chunk on the wire, made by the first connection that gets it and shared by all."""
    if gzip is not None:
        return gzip.chunk(chunk)
    if chunk.encoded is None:
        chunk.encoded = chunk_of(chunk.frames)
    return chunk.encoded


def chunk_of(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
