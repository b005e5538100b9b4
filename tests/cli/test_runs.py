"""What others learn of a run of a job: Prometheus by a file, catalogues by OpenLineage."""

import json
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.command import invoke
from typer import Exit

from aviso_server.cli.runs import RunGroup
from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.runs.run import Dataset


def run_once(path: Path | None = None, *, fails: BaseException | None = None) -> None:
    """A job that reads 5 rows and writes 3 of them, unless it fails."""
    with RunGroup(metrics_file=path).job("ingest") as noted:
        noted.reads(Dataset.at("/data/old.ndjson"), Dataset.at("s3://user:key@bucket/old/x.csv"))
        noted.writes(Dataset.at("/lake/notifications"))
        noted.rows["read"] = 5
        if fails is not None:
            raise fails
        noted.rows["written"] = 3


def series(path: Path) -> dict[tuple[str, str], float]:
    """The file as Prometheus reads it: values by name and last label."""
    return {
        (sample.name, [*sample.labels.values()][-1]): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where OpenLineage's client writes its events to."""
    path = tmp_path / "events.json"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(path))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return path


def test_the_file_for_prometheus(tmp_path: Path) -> None:
    """What became of the last run and what it counted; a failure keeps when it last went well."""
    path = tmp_path / "ingest.prom"
    run_once(path)
    good = series(path)
    assert good["aviso_job_last_outcome", "complete"] == 1
    assert (good["aviso_job_last_rows", "read"], good["aviso_job_last_rows", "written"]) == (5, 3)
    succeeded = "aviso_job_last_success_timestamp_seconds", "ingest"
    assert good[succeeded] == good["aviso_job_last_run_timestamp_seconds", "ingest"] > 0
    for error, outcome in ((AvisoError("no"), "failed"), (KeyboardInterrupt(), "interrupted")):
        with pytest.raises(Exit):
            run_once(path, fails=error)
        bad = series(path)
        assert bad["aviso_job_last_outcome", outcome] == 1
        assert bad["aviso_job_last_outcome", "complete"] == 0
        assert bad[succeeded] == good[succeeded]
        assert ("aviso_job_last_rows", "written") not in bad


def test_a_job_that_did_not_do_all_of_it(tmp_path: Path, events: Path) -> None:
    """It came to its end, and has not succeeded."""
    path = tmp_path / "maintain.prom"
    with RunGroup(metrics_file=path).job("maintain") as noted:
        noted.problem = "a file cannot be read"
    assert series(path)["aviso_job_last_outcome", "failed"] == 1
    assert series(path)["aviso_job_last_success_timestamp_seconds", "maintain"] == 0
    end = json.loads(events.read_text().splitlines()[-1])
    assert end["run"]["facets"]["errorMessage"]["message"] == "a file cannot be read"


def test_a_job_that_never_succeeded(tmp_path: Path) -> None:
    """It says so; also where the file is something else, or cannot be written."""
    path = tmp_path / "audit.prom"
    path.write_text("{ not metrics")
    result = invoke("pipeline", "audit", "--lake", "none", "--metrics-file", str(path))
    assert result.exit_code == 1
    assert series(path)["aviso_job_last_success_timestamp_seconds", "audit"] == 0
    nowhere = str(tmp_path / "no" / "folder")
    result = invoke("pipeline", "audit", "--lake", "none", "--metrics-file", nowhere)
    assert result.exit_code == 1
    assert "there is no lake" in result.stderr
    assert "it could not be reported" in result.stderr


def test_events_for_a_catalogue(events: Path) -> None:
    """One at the beginning, one at the end; with data by name, counts, and no credentials."""
    run_once()
    begin, end = map(json.loads, events.read_text().splitlines())
    assert (begin["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert begin["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("aviso-server", "pipeline.ingest")
    assert [(item["namespace"], item["name"]) for item in end["inputs"]] == [
        ("file", "/data/old.ndjson"),
        ("s3://bucket", "old/x.csv"),
    ]
    (written,) = end["outputs"]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 3


def test_events_of_a_failure(events: Path) -> None:
    """The same line that people read."""
    result = invoke("pipeline", "audit", "--lake", "none")
    end = json.loads(events.read_text().splitlines()[-1])
    assert (end["eventType"], end["job"]["name"]) == ("FAIL", "pipeline.audit")
    assert end["run"]["facets"]["errorMessage"]["message"] in result.stderr
    assert [item["name"] for item in end["inputs"]] == [str(Path("none/notifications").absolute())]


def test_a_catalogue_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job is done all the same, and says that nobody was told."""
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    run_once()
    assert capsys.readouterr().err.count("it could not be reported") == 2


def test_without_the_client(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asked for events learns that there are none, before the job begins."""
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.delitem(sys.modules, "aviso_server.pipeline.runs.lineage", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(Exit):
        run_once()
    assert "pip install 'aviso-server[lineage]'" in capsys.readouterr().err


def test_logs_by_name() -> None:
    """By server and event type, without credentials; an embedded one by its address file."""
    told = {"servers": "nats://me:secret@one:4222,nats://two:4222", "eventType": "mars"}
    assert Dataset.of_log(told) == Dataset("nats://one:4222", "mars")
    assert Dataset.of_log({"addressFile": "/var/nats/address"}).name == "/var/nats/address"
