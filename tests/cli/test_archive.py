"""``aviso-server pipeline archive``: help that teaches, and errors that fit on a line."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from rich.console import Console
from support.command import invoke
from support.config import document, on_jetstream, settings
from support.log import SCHEMAS

from aviso_server.cli import progress
from aviso_server.cli.archive import ArchiveGroup
from aviso_server.cli.jobs import LakeGroup, SparkGroup
from aviso_server.core.json import Json
from aviso_server.pipeline.archive.progress import ArchiveSnapshot, Reach
from aviso_server.pipeline.spark.session import SparkOptions
from aviso_server.settings import Settings

NOWHERE = "nats://127.0.0.1:1"


def _config(folder: Path, sections: dict[str, Json]) -> str:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(document(sections, schemas=SCHEMAS)))
    return str(path)


def _settings(jetstream: dict[str, Json] | None = None, **lake: Json) -> Settings:
    backend: Json = {"kind": "jetstream", "jetstream": jetstream or {}}
    return settings({"notification_backend": backend, "lake": dict(lake)}, schemas=SCHEMAS)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        # Help comes at once, and no command loads what only another needs.
        ("cli.commands", ("pyspark", "pyarrow", "deltalake", "numpy", "pydantic", "structlog")),
        ("lake.lake", ("pyspark", "pandas")),
        # Spark starts Python processes for all it asks of a source; few of them open the log.
        ("pipeline.datasource", ("nats", "aiohttp", "structlog", "pandas", "deltalake")),
        ("pipeline.archive.source", ("nats", "aiohttp", "structlog", "pandas")),
        ("pipeline.history.files", ("nats", "aiohttp", "structlog", "pandas")),
    ],
)
def test_what_takes_long_to_load_is_left_out(module: str, unwanted: tuple[str, ...]) -> None:
    """A module that is imported often, or waited for, does not bring it along."""
    seen = (
        f"import sys; import aviso_server.{module}; "
        f"print([name for name in {unwanted} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_pyspark_it_says_how_to_get_it(tmp_path: Path) -> None:
    """In one line, without a stack trace."""
    config = _config(tmp_path, {**on_jetstream(NOWHERE), "lake": {"path": "lake"}})
    hidden = (
        "import sys; sys.modules['pyspark'] = None; sys.argv[0] = 'aviso-server'; "
        "from aviso_server.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, "pipeline", "archive", "--config", config],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "PySpark is not installed; install it with: pip install 'aviso-server[spark]'\n"
    )


@pytest.mark.parametrize(
    ("sections", "arguments", "message"),
    [
        (on_jetstream(NOWHERE), [], "there is no lake to write to: set lake.path"),
        ({}, ["--lake", "lake"], "there is no log to archive: notification_backend.kind is in_mem"),
        (on_jetstream(NOWHERE), ["--lake", "lake"], "NATS connect failed: "),
        (on_jetstream(NOWHERE), ["--lake", "config.yaml"], "cannot make the table "),
        (
            on_jetstream(NOWHERE),
            ["--lake", "lake", "--remote", "sc://127.0.0.1:1"],
            "the Spark Connect server 127.0.0.1:1 cannot be reached",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, sections: dict[str, Json], arguments: list[str], message: str
) -> None:
    """On stderr with exit code 1, before any JVM starts; programs see the state too."""
    result = invoke(
        "pipeline",
        "archive",
        *("--config", _config(tmp_path, sections), "--progress", "json"),
        *("--once", "--wait", "1s", *arguments),
    )
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"aviso-server pipeline archive: {message}")
    told = [json.loads(text) for text in result.stdout.splitlines()]
    assert not told or told[-1]["state"] == "failed"


def test_verbose_shows_where_it_came_from(tmp_path: Path) -> None:
    """A stack trace for those who ask for one."""
    config = _config(tmp_path, on_jetstream(NOWHERE))
    result = invoke(
        "pipeline",
        "archive",
        "--config",
        config,
        "--lake",
        "config.yaml",
        "--progress",
        "none",
        "--verbose",
    )
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stdout == ""


def test_the_settings_describe_the_job(tmp_path: Path) -> None:
    """A relative path is made absolute: Spark's processes may be elsewhere."""
    loaded = _settings(
        path="var/lake", storage_options={"AWS_REGION": "x"}, archive_interval_seconds=3
    )
    options = ArchiveGroup().options(loaded, LakeGroup())
    assert options.place.path == str(tmp_path / "var" / "lake")
    assert options.place.options == {"AWS_REGION": "x"}
    assert (options.interval_s, options.max_records, options.once) == (3, 200_000, False)
    assert options.books.path == f"{tmp_path}/var/lake/checkpoints/archive"
    assert options.source_options["eventType"] == "*"


def test_the_command_line_wins() -> None:
    """Storage options are added to those of the settings."""
    loaded = _settings(path="/a", storage_options={"AWS_REGION": "x", "K": "1"})
    options = ArchiveGroup(
        event_type=["storm", "flood"], interval="1m", max_records=5, fail_on_data_loss=False
    ).options(loaded, LakeGroup(lake="s3://bucket/lake", storage_option=["K=2"]))
    assert options.place.path == "s3://bucket/lake"
    assert options.place.options == {"AWS_REGION": "x", "K": "2"}
    assert options.books.path == "s3://bucket/lake/checkpoints/archive"
    assert options.interval_s == 60
    asked = options.source_options
    assert (asked["eventType"], asked["maxRecordsPerTrigger"]) == ("storm,flood", "5")
    assert asked["failOnDataLoss"] == "false"


@pytest.mark.parametrize(
    ("configured", "chosen", "expected"),
    [(True, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_what_becomes_of_data_loss(configured: bool, chosen: bool | None, expected: bool) -> None:
    """A managed job has no command line: the settings decide, unless that says otherwise."""
    loaded = _settings(path="/lake", fail_on_data_loss=configured)
    options = ArchiveGroup(fail_on_data_loss=chosen).options(loaded, LakeGroup())
    assert options.fail_on_data_loss is expected


def test_secrets_are_not_shown() -> None:
    """Neither NATS's nor the object store's."""
    loaded = _settings({"token": "s3cret"}, path="/a", storage_options={"K": "hidden"})
    shown = repr(ArchiveGroup().options(loaded, LakeGroup(storage_option=["L=hidden"])))
    assert "s3cret" not in shown
    assert "hidden" not in shown


def test_which_spark() -> None:
    """The archive job has defaults in the settings; a remote Spark is only told what may change."""
    loaded = _settings(spark_master="yarn", spark_conf={"a": "1", "b": "2"}, spark_packages=["p"])
    chosen = SparkGroup(conf=["b=3"])
    options = chosen.options("archive", loaded)
    assert (options.master, options.packages, options.remote) == ("yarn", ("p",), None)
    assert options.conf == {"a": "1", "b": "3"}
    assert chosen.options("audit") == SparkOptions(conf={"b": "3"}, app_name="aviso-server audit")
    remote = SparkGroup(remote="sc://x", conf=["b=3"]).options("archive", loaded)
    assert (remote.conf, remote.packages) == ({"b": "3"}, ())
    both = SparkGroup(remote="sc://x", packages="p, q")
    with pytest.raises(typer.BadParameter, match="--master and --packages go without it"):
        both.options("audit")
    assert SparkGroup(packages="p, q").options("audit").packages == ("p", "q")


def test_the_line_for_people() -> None:
    """State, event types, counts, rate, lag in notifications and seconds, last commit, trouble."""
    snapshot = ArchiveSnapshot(
        "running",
        archived=1234,
        letters=2,
        rate=567.8,
        lag_s=7.2,
        event_types={"storm": Reach(90, 100), "flood": Reach(5, 5)},
        committed_at=0.0,
        error="NATS is away",
    )
    text = progress.line(snapshot)
    for part in (
        "archive running  flood, storm  1,234 archived  568/s  lag 10 (7 s)  2 dead letters",
        "last commit ",
        "NATS is away",
    ):
        assert part in text
    assert "4 event types" in progress.line(
        ArchiveSnapshot("running", event_types={name: Reach(0, 0) for name in "abcd"})
    )


def test_where_nobody_watches_little_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each change of state."""
    with progress.show_progress("auto") as show:
        for stage in ("starting", "running", "running", "running", "stopped"):
            show(ArchiveSnapshot(stage))
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split()[1] for line in err.splitlines()] == ["starting", "running", "stopped"]


def test_a_terminal_shows_one_live_line() -> None:
    """The line replaces itself."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with progress.live(console) as show:
        for count in (1, 2):
            show(ArchiveSnapshot("running", archived=count))
    assert "2 archived" in screen.getvalue()
    assert screen.getvalue().count("\n") <= 2
