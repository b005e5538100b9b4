"""Finding Java: where it is looked for, what is good enough, what is said when there is none."""

from pathlib import Path

import pytest

from aviso_server.pipeline.spark.java import JavaMissing, find_java, version_of


def _java(home: Path, version: str, *, release: bool = True) -> Path:
    """A folder that looks like a Java: with notes, or with a program that answers."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
        program.write_text("#!/bin/sh\nexit 9\n")
    else:
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(("text", "version"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25)])
def test_versions_are_read_from_notes_or_asked_for(
    tmp_path: Path, text: str, version: int, release: bool
) -> None:
    """Both spellings of a version are understood."""
    assert version_of(_java(tmp_path / "j", text, release=release)) == version


def test_java_home_comes_first_then_the_path_then_the_usual_places(tmp_path: Path) -> None:
    """An explicit choice wins; one that is too old is passed over."""
    chosen = _java(tmp_path / "chosen", "21")
    on_path = _java(tmp_path / "on_path", "18")
    for version in ("25", "17", "11"):
        _java(tmp_path / "usual" / version, version)
    places = [f"{tmp_path}/usual/*"]
    environ = {"JAVA_HOME": str(chosen), "PATH": str(on_path / "bin")}
    assert find_java(environ, places).home == chosen
    assert find_java({**environ, "JAVA_HOME": str(tmp_path)}, places).home == on_path
    assert find_java({"PATH": str(tmp_path)}, places).version == 17


def test_the_message_says_how_to_install_it(tmp_path: Path) -> None:
    """None, or only an old one: the message says which, and what to type."""
    with pytest.raises(JavaMissing, match="no Java was found") as none:
        find_java({}, [])
    for text in ("apt-get install openjdk-17-jre-headless", "dnf install", "brew", "JAVA_HOME"):
        assert text in str(none.value)
    old = _java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing, match=r"Java 11 in .*old is too old"):
        find_java({"JAVA_HOME": str(old)}, [])
