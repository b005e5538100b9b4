"""The commands maintain and audit: errors before Spark starts, and what they print."""

from datetime import date
from pathlib import Path

import pytest
import yaml
from support.command import invoke
from support.config import document, on_jetstream, settings
from support.lake import filled, record

from aviso_server.cli import audit, maintain
from aviso_server.cli.jobs import LakeGroup
from aviso_server.core.json import Json
from aviso_server.lake.inventory import Inventory, TableFile
from aviso_server.lake.layout import Place
from aviso_server.pipeline.audit.evidence import Finding
from aviso_server.pipeline.audit.job import Audited, AuditReport
from aviso_server.pipeline.maintain.job import MaintainOutcome
from aviso_server.pipeline.maintain.plan import FileRemoval, MaintainPlan, Rewrite

DAY = date(2026, 1, 1)


def test_what_cannot_be_done_is_reported_in_one_line(tmp_path: Path) -> None:
    """Before Spark is started; exit code 1."""
    nowhere = str(tmp_path / "nowhere")
    for command in ("maintain", "audit"):
        result = invoke("pipeline", command, "--lake", nowhere)
        assert result.exit_code == 1
        assert result.output == f"aviso-server pipeline {command}: there is no lake at {nowhere}\n"
    filled(Place(str(tmp_path / "lake")), [record(1)])
    result = invoke("pipeline", "maintain", "--lake", str(tmp_path / "lake"), "--keep-days", "0.01")
    assert result.exit_code == 1
    assert "--force" in result.output


def test_where_the_lake_is(tmp_path: Path) -> None:
    """The command line wins over the settings, whose options of the object store still hold."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(document()))
    told = "there is no lake to read: set lake.path, or give --lake PATH"
    for command, more in (("audit", ()), ("report", ("--output", str(tmp_path / "page.html")))):
        result = invoke("pipeline", command, "--config", str(config), *more)
        assert result.exit_code == 1
        assert result.output == f"aviso-server pipeline {command}: {told}\n"
    lake: Json = {"path": "s3://a/lake", "storage_options": {"K": "1", "L": "2"}}
    configured = settings({**on_jetstream("nats://127.0.0.1:1"), "lake": lake})
    chosen = LakeGroup(storage_option=["L=3"])
    assert chosen.existing(configured) == Place("s3://a/lake", {"K": "1", "L": "3"})
    named = LakeGroup(lake="/b")
    assert named.existing(configured) == Place("/b", {"K": "1", "L": "2"})
    assert named.existing() == Place("/b", {})


def test_sizes_may_be_written_with_or_without_b() -> None:
    """As people write them."""
    assert maintain._size("128MiB") == maintain._size("128Mi") == 128 * 1024**2
    assert maintain._size("128MB") == 128_000_000
    assert maintain._retention(["mars=400d", "*=8w"]) == {"mars": 400, "*": 56}


def test_a_plan_is_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each day and kind of work."""
    files = Inventory.of(
        TableFile(f"f{n}", 1536, "mars", DAY, 10, 10 * n + 1, 10 * n + 10) for n in range(3)
    )
    plan = MaintainPlan(
        (FileRemoval("mars", DAY, files[:1], "expired"),),
        (Rewrite("mars", DAY, files[1:], 4), Rewrite("diss", DAY, files)),
    )
    maintain._show(MaintainOutcome(plan, swept=["x"]), dry_run=True)
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table[1:4] == [
        ["diss", "2026-01-01", "rewrite", "3", "4.5", "KiB", "1", "30", "0"],
        ["mars", "2026-01-01", "remove", "(expired)", "1", "1.5", "KiB", "0", "10", "0"],
        ["mars", "2026-01-01", "rewrite", "2", "3.0", "KiB", "1", "20", "4"],
    ]
    assert table[4][0] == "1"
    maintain._show(MaintainOutcome(files_before=16, files_after=3, rows_hidden=23), dry_run=False)
    told = capsys.readouterr().out
    assert "files 16 -> 3" in told
    assert "23 deleted or wiped" in told


def test_findings_are_printed_with_their_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    """Ranges, single ones, and what was too much to be named."""
    item = Audited(
        "mars",
        1,
        9000,
        findings=[
            Finding("hole", 3, 5, 3),
            Finding("row", 7, 7, 1, "its id [is] wrong"),
            Finding("missing", 1000, 9000, 400),
        ],
    )
    audit.show(AuditReport("lake", 1, False, [item]))  # noqa: FBT003
    assert [line.split(None, 1) for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["mars", "hole        3 to 5"],
        ["mars", "row         7: its id [is] wrong"],
        ["mars", "missing     1,000 to 9,000 (400 of them)"],
        ["not", "complete"],
    ]
