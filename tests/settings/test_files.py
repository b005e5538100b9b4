"""Which files are read, and how one is read."""

from pathlib import Path

import pytest

from aviso_server.settings.faults import Fault, SettingsError
from aviso_server.settings.files import named_file, read, search


def test_files_are_searched_in_the_order_of_the_specification() -> None:
    """Working directory, then /etc, then home; later wins."""
    found = search(Path("/cwd"), Path("/home/me"), Path("/etc"))
    assert [str(path) for path in found] == [
        "/cwd/configuration/config.yaml",
        "/etc/aviso_server/config.yaml",
        "/home/me/.aviso_server/config.yaml",
    ]


def test_without_a_home_two_places_remain() -> None:
    """A process without HOME is not an error."""
    assert len(search(Path("/cwd"), None, Path("/etc"))) == 2


def test_the_option_wins_over_the_variable(tmp_path: Path) -> None:
    """``--config`` acts like AVISOSERVER_CONFIG_FILE and beats it."""
    file = tmp_path / "a.yaml"
    file.touch()
    assert named_file(file, {"AVISOSERVER_CONFIG_FILE": "/nowhere"}) == file
    assert named_file(None, {"AVISOSERVER_CONFIG_FILE": str(file)}) == file
    assert named_file(None, {}) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "AVISOSERVER_CONFIG_FILE is set but empty"),
        (" ", "AVISOSERVER_CONFIG_FILE is set but empty"),
        ("/nowhere", "AVISOSERVER_CONFIG_FILE does not point to a file: /nowhere"),
        ("/", "AVISOSERVER_CONFIG_FILE does not point to a file: /"),
    ],
)
def test_a_variable_that_names_no_file_is_a_fault(value: str, message: str) -> None:
    """A bad AVISOSERVER_CONFIG_FILE is named, word for word."""
    assert _fault_named(None, {"AVISOSERVER_CONFIG_FILE": value}).message == message


def test_an_option_that_names_no_file_is_a_fault() -> None:
    """The option is blamed, not the variable."""
    fault = _fault_named(Path("/nowhere"), {})
    assert str(fault) == "--config: does not point to a file: /nowhere"


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, text: str) -> None:
    """A file of comments is sound."""
    assert read(_file(tmp_path, text)) == {}


def test_scalars_follow_yaml_1_2(tmp_path: Path) -> None:
    """Countries, times, dates and leading zeros are what they look like."""
    text = "a: no\nb: 12:00\nc: 2025-01-01\nd: 0010\ne: 1e3\nf: 0x10\ng: ~\nh: True\ni: .inf\n"
    assert read(_file(tmp_path, text)) == {
        "a": "no",
        "b": "12:00",
        "c": "2025-01-01",
        "d": 10,
        "e": 1000.0,
        "f": 16,
        "g": None,
        "h": True,
        "i": float("inf"),
    }


def test_keys_are_text_as_written(tmp_path: Path) -> None:
    """A realm named 0042 or an event type named on keeps its name."""
    assert read(_file(tmp_path, "0042: a\non: b\ntrue: c\n")) == {
        "0042": "a",
        "on": "b",
        "true": "c",
    }


def test_merge_keys_may_be_overridden(tmp_path: Path) -> None:
    """``<<`` brings a map in, and the map's own keys win."""
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, x: 3}\n"
    assert read(_file(tmp_path, text)) == {
        "a": {"x": 1, "y": 1},
        "b": {"x": 1, "y": 2},
        "c": {"x": 3, "y": 2},
    }


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: 1\nb: [\n", "line 3, column 1"),
        ("a: 1\na: 2\n", "line 2, column 1: key 'a' is given twice"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1"),
        ("a: !!binary aGk=\n", "line 1, column 4: tag 'tag:yaml.org,2002:binary' is not supported"),
        ("? [a]\n: 1\n", "line 1, column 3: a key must be plain text"),
        ("a: &a [*a]\n", "line 1, column 4: found unconstructable recursive node"),
        ("a: \x01\n", "is not valid YAML"),
        (f"a: {'9' * 5000}\n", "is not valid YAML"),
    ],
)
def test_broken_yaml_is_a_fault_with_its_place(tmp_path: Path, text: str, where: str) -> None:
    """File, line and column of the problem are reported."""
    path = _file(tmp_path, text)
    fault = _fault_read(path)
    assert fault.path == str(path)
    assert where in fault.message


@pytest.mark.parametrize("text", ["- a\n", "text\n", "5\n"])
def test_a_file_without_a_mapping_is_a_fault(tmp_path: Path, text: str) -> None:
    """Settings are a mapping."""
    fault = _fault_read(_file(tmp_path, text))
    assert fault.message == "must hold a mapping of settings at its top level"


def test_a_file_of_other_bytes_is_a_fault(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are reported, not raised."""
    path = tmp_path / "config.yaml"
    path.write_bytes(b"a: \xff\xfe\n")
    assert "is not valid YAML" in _fault_read(path).message


def test_a_file_that_cannot_be_opened_is_a_fault(tmp_path: Path) -> None:
    """An unreadable path says what the system said."""
    assert _fault_read(tmp_path).message == "cannot be read: Is a directory"


def _file(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _fault_read(path: Path) -> Fault:
    with pytest.raises(SettingsError) as caught:
        read(path)
    (fault,) = caught.value.faults
    return fault


def _fault_named(config_file: Path | None, environ: dict[str, str]) -> Fault:
    with pytest.raises(SettingsError) as caught:
        named_file(config_file, environ)
    (fault,) = caught.value.faults
    return fault
