"""Files of histories: found, cut into pieces, read."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.ingest.claim import BadClaim, Claim
from aviso_server.pipeline.ingest.files import (
    FilePiece,
    SourceFailed,
    SourceFile,
    check,
    count_lines,
    files,
    pieces,
    read,
    with_numbers,
    without_numbers,
)
from aviso_server.pipeline.ingest.table import BadMapping, ColumnMap, read_mapping

NOTHING = ColumnMap()


def file(path: Path) -> SourceFile:
    """The file as it is found."""
    (found,) = files([str(path)])
    return found


def lines_of(path: Path, most: int) -> list[tuple[int, object]]:
    """Numbers and texts of all lines, read in pieces."""
    made = pieces(file(path), "ndjson", most=most)
    counts = {(piece.path, piece.begin): count_lines(piece) for piece in without_numbers(made)}
    numbered = with_numbers(made, counts)
    return [(number, raw) for piece in numbered for number, _, raw in read(piece, NOTHING)]


@given(
    st.lists(st.sampled_from([b"", b"{}", b'{"a":1}', b"x" * 9, b" "]), max_size=30),
    st.integers(1, 40),
    st.booleans(),
)
def test_every_line_is_read_once_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], most: int, ended: bool
) -> None:
    """However a file is cut; empty lines count and are not read."""
    path = tmp_path_factory.mktemp("lines") / "x.ndjson"
    path.write_bytes(b"\n".join(texts) + (b"\n" if ended else b""))
    expected = [(n, text) for n, text in enumerate(texts, 1) if text.strip()]
    assert lines_of(path, most) == expected


def test_compressed_lines(tmp_path: Path) -> None:
    """A file that ends in .gz is read through."""
    path = tmp_path / "x.ndjson.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n\n{"b":2}\n'))
    assert lines_of(path, 3) == [(1, b'{"a":1}'), (3, b'{"b":2}')]
    path.write_bytes(b"no gzip")
    with pytest.raises(SourceFailed, match="cannot read"):
        lines_of(path, 3)


def test_files_folders_and_patterns(tmp_path: Path) -> None:
    """Each file once, in order; bookkeeping of others is passed over."""
    for name in ("b/2.ndjson", "b/1.ndjson", "b/_SUCCESS", "a.ndjson", "b/.x.crc"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}")
    found = files([str(tmp_path / "b"), str(tmp_path / "*.ndjson"), str(tmp_path / "b/1.ndjson")])
    names = [str(Path(item.path).relative_to(tmp_path)) for item in found]
    assert names == ["b/1.ndjson", "b/2.ndjson", "a.ndjson"]
    for missing in ("no.ndjson", "no*"):
        with pytest.raises(SourceFailed, match=f"there is no file .*{missing[:2]}"):
            files([str(tmp_path / missing)])


def read_csv(path: Path, text: bytes, mapping: ColumnMap) -> list[tuple[int, Claim | AvisoError]]:
    """Numbers and claims of a CSV file."""
    path.write_bytes(text)
    return [(number, claim) for number, claim, _ in read(FilePiece(str(path), "csv"), mapping)]


def test_columns_of_csv(tmp_path: Path) -> None:
    """Mapped columns, columns named as fields, a constant event type, line numbers."""
    mapping = read_mapping(
        "identifier.class=klasse,time=at", event_type="mars", fields=["class", "step", "time"]
    )
    text = (
        b"\xef\xbb\xbfklasse,step,at,payload,note\r\n"
        b'od,3,2026-01-01T00:00:00Z,"{""a"":\n1}",x\r\n'
        b"rd,,2026-01-01T00:00:01Z,,\r\n"
        b"od,3\r\n"
        b"\xff,3,,,\r\n"
    )
    (one, two, three, four) = read_csv(tmp_path / "x.csv", text, mapping)
    at = 1_767_225_600_000_000_000
    assert one == (
        3,
        Claim(b'"mars"', b'{"class":"od","step":"3"}', b'{"a":\n1}', {}, None, at),
    )
    assert two == (4, Claim(b'"mars"', b'{"class":"rd"}', None, {}, None, at + 10**9))
    assert three[0] == 5
    assert isinstance(three[1], BadClaim)
    assert isinstance(four[1], BadClaim)
    assert "UTF-8" in four[1].message


def test_mappings_that_make_no_sense(tmp_path: Path) -> None:
    """They are refused with a reason, before or when the header is seen."""
    for text in ("a", "event_type=", "=x", "color=x", "identifier.=x", "time=a,time=b"):
        with pytest.raises(BadMapping):
            read_mapping(text, event_type=None, fields=[])
    with pytest.raises(BadMapping, match="give one"):
        read_mapping("event_type=x", event_type="mars", fields=[])
    for mapping, words in (
        (read_mapping("time=no", event_type="mars", fields=[]), "no column 'no'"),
        (read_mapping(None, event_type=None, fields=["class"]), "says the event type"),
        (read_mapping(None, event_type="mars", fields=[]), "part of an identifier"),
    ):
        with pytest.raises(BadMapping, match=words):
            read_csv(tmp_path / "x.csv", b"class\nod\n", mapping)
        with pytest.raises(BadMapping, match=words):
            check(file(tmp_path / "x.csv"), "csv", mapping)


def test_rows_of_parquet(tmp_path: Path) -> None:
    """Row groups are pieces, times keep their nanoseconds, structs and maps are identifiers."""
    path = tmp_path / "x.parquet"
    ns = 1_767_225_600_123_456_789
    table = pa.table(
        {
            "event_type": ["ev"] * 5,
            "identifier": pa.array([{"region": "n", "n": None}] * 5),
            "time": pa.array([ns + n for n in range(5)], pa.timestamp("ns", "UTC")),
            "sequence": pa.array([1, 2, 3, 4, None], pa.int64()),
            "payload": ["1", "{}", None, "x", "2"],
        }
    )
    pq.write_table(table, path, row_group_size=2)
    made = pieces(file(path), "parquet")
    assert [(piece.begin, piece.first) for piece in made] == [(0, 1), (1, 3), (2, 5)]
    found = [(number, claim) for piece in made for number, claim, _ in read(piece, NOTHING)]
    assert [number for number, _ in found] == [1, 2, 3, 4, 5]
    assert found[0][1] == Claim(b'"ev"', b'{"region":"n"}', b"1", {}, 1, ns)
    assert found[2][1] == Claim(b'"ev"', b'{"region":"n"}', None, {}, 3, ns + 2)
    assert found[4][1] == Claim(b'"ev"', b'{"region":"n"}', b"2", {}, None, ns + 4)
    (tmp_path / "y.parquet").write_bytes(b"no")
    with pytest.raises(SourceFailed, match="as Parquet"):
        pieces(file(tmp_path / "y.parquet"), "parquet")
    with pytest.raises(SourceFailed, match="as parquet"):
        check(file(tmp_path / "y.parquet"), "parquet", NOTHING)
