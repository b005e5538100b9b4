"""Documentation that cannot rot: its links, codes, routes, commands and frames are checked."""

import configparser
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from support.markdown import CODE_BLOCK, anchors

from aviso_server.cli.commands import app
from aviso_server.cli.lazy import LazyGroup
from aviso_server.core.fields import registry
from aviso_server.core.fields.field import ScalarField, SpatialField
from aviso_server.core.frame import (
    Closing,
    Established,
    Frame,
    Framer,
    Heartbeat,
    HistoryGap,
    LimitReached,
    Reason,
    ReplayCompleted,
    ReplayStarted,
    StreamFailed,
)
from aviso_server.core.operation import Operation
from aviso_server.http.app import ROUTES, Route
from aviso_server.http.errors import TABLE, row_of, unexpected_answer
from aviso_server.settings.model import Application, LimitsSection, Section, WatchEndpoint
from aviso_server.telemetry.series import SERIES, Growth

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ROW = re.compile(r"^\| `([A-Z_]+)` \| (\d{3}) \|", re.MULTILINE)
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_SETTING = re.compile(
    r"`((?:application|watch_endpoint|logging|metrics|notification_backend)(?:\.\w+)+)[`:]"
)
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
_METRIC = re.compile(r"\baviso_(?!server)[a-z]\w*")
TEN_O_CLOCK = 1_772_618_400_000_000_000
"""2026-03-04T10:00:00Z, the moment in the examples."""


def _page(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_page)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the repository, and its anchor a heading there."""
    for link in _LINK.findall(CODE_BLOCK.sub("", page.read_text())):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file.read_text()), link


def test_pages_are_reachable() -> None:
    """Every page can be reached from the README by following links."""
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in seen:
            continue
        seen.add(page)
        if page.is_dir():
            waiting += page.glob("*.md")
        elif page.suffix == ".md":
            links = _LINK.findall(page.read_text())
            targets = [page.parent / link.partition("#")[0] for link in links if "://" not in link]
            waiting += [target for target in targets if target.exists()]
    assert [_page(page) for page in PAGES if page.resolve() not in seen] == []


def test_pictures_are_small() -> None:
    """Every picture is shown somewhere and has less than 200 kB."""
    shown = "".join(page.read_text() for page in PAGES)
    for picture in (DOCS / "pictures").iterdir():
        assert picture.name in shown
        assert picture.stat().st_size < 200_000


def test_every_error_code_is_documented() -> None:
    """docs/errors.md has exactly the codes the server answers with, and their statuses."""
    known = {("INTERNAL_ERROR", unexpected_answer("").status)}
    for kind in TABLE:
        for operation in Operation:
            error = kind.__new__(kind)
            row = row_of(error, operation)
            known.add((str(row.code), row.status))
    table = (DOCS / "errors.md").read_text().split("## Codes\n")[1].split("\n## ")[0]
    assert {(code, int(status)) for code, status in _ROW.findall(table)} == known


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_documented(route: Route) -> None:
    """docs/protocol.md or docs/operations.md names every method and path."""
    text = (DOCS / "protocol.md").read_text() + (DOCS / "operations.md").read_text()
    shown = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", route.path)
    assert f"`{route.method} {shown}`" in text


def test_every_command_is_documented() -> None:
    """docs/operations.md names every command; every option is in some page."""
    command = typer.main.get_command(app)
    text = (DOCS / "operations.md").read_text()
    pages = "".join(page.read_text() for page in PAGES)
    assert isinstance(command, LazyGroup)
    assert command.commands
    missing = [name for name in command.commands if f"aviso-server {name} " not in text]
    jobs = command.get_command(None, "pipeline")
    assert isinstance(jobs, LazyGroup)
    for group in (command, jobs):
        for name in [*group.commands]:
            item = group.get_command(None, name)
            assert item is not None
            options = [option for parameter in item.params for option in parameter.opts]
            missing += [f"{name} {o}" for o in options if o.startswith("--") and o not in pages]
    assert missing == []


def test_every_field_type_is_documented() -> None:
    """docs/schema.md has a row for every field type."""
    text = (DOCS / "schema.md").read_text()
    assert registry.__name__  # whose import makes all of them known
    kinds = [*ScalarField.__subclasses__(), *SpatialField.__subclasses__()]
    names = {kind.type for kind in kinds if hasattr(kind, "type")}
    assert len(names) == 9
    assert {name for name in names if f"| `{name}` |" not in text} == set()


@pytest.mark.parametrize(
    "frame",
    [
        Established(3600),
        ReplayStarted(batch_size=100, from_sequence=5, from_ns=None, end_sequence=None, to_ns=None),
        HistoryGap(5, 120),
        LimitReached(10_000),
        ReplayCompleted(),
        Heartbeat(),
        StreamFailed("Failed to read history"),
        Closing(Reason.END_OF_STREAM),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_every_frame_is_shown_as_it_is(frame: Frame) -> None:
    """docs/protocol.md shows each control frame with its exact bytes."""
    framer = Framer("0d4f6758-1ce3-4dda-a0f3-0ccf5fcb50d6", "polygon.*.1200")
    shown = framer.render(frame, TEN_O_CLOCK).decode().strip()
    assert shown in (DOCS / "protocol.md").read_text()


def test_every_setting_named_exists() -> None:
    """Settings that a page names are in docs/configuration.md, which a test holds to the model."""
    listed = (DOCS / "configuration.md").read_text()
    named: set[str] = set()
    for page in PAGES:
        named |= set(_SETTING.findall(page.read_text()))
    assert len(named) >= 8
    assert [path for path in sorted(named) if f"`{path}`" not in listed] == []


@pytest.mark.parametrize("page", ["security.md", "limits.md"])
def test_every_promise_has_its_test(page: str) -> None:
    """Each row of a promise or limit names a test, and every test that a page names is there."""
    text = (DOCS / page).read_text()
    rows = 0
    for table in _TABLE.findall(text):
        heading, _, *lines = table.splitlines()
        if heading.endswith(("| Shown by |", "| Test |")):
            rows += len(lines)
            assert [line for line in lines if not re.search(r"`tests/|\| the same \|$", line)] == []
    assert rows > 20
    missing = [
        f"{file}::{name}"
        for file, name in _TEST.findall(text)
        if not (ROOT / file).exists() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]
    assert missing == []


def test_every_limit_is_documented() -> None:
    """docs/limits.md has a row for each setting that bounds a size, a number or a time."""
    rows = [line for line in (DOCS / "limits.md").read_text().splitlines() if line[:2] == "| "]
    sections: dict[str, type[Section]] = {
        "application": Application,
        "limits": LimitsSection,
        "watch_endpoint": WatchEndpoint,
    }
    wrong: list[str] = []
    for section, model in sections.items():
        for name, field in model.model_fields.items():
            if not isinstance(field.default, int) or isinstance(field.default, bool):
                continue
            told = [row.split(" | ")[1] for row in rows if f"`{section}.{name}`" in row]
            shown = "|".join(_amounts(field.default))
            if not any(re.search(rf"(?<!\d)(?:{shown})(?!\d)", cell) for cell in told):
                wrong.append(f"{section}.{name}: {field.default}")
    assert wrong == []


def _amounts(number: int) -> Iterator[str]:
    """How a default may be written."""
    yield "none," if number == 0 else f"{number}"
    for unit in ("KiB", "MiB", "GiB"):
        number, rest = divmod(number, 1024)
        if rest:
            return
        yield f"{number} {unit}"


def test_every_metric_is_documented() -> None:
    """docs/metrics.md has exactly the series of the server, with type, labels and meaning."""
    kinds = {Growth.COUNTER: "counter", Growth.HISTOGRAM: "histogram"}
    rows = set()
    for item in SERIES:
        labels = item.labels[:-1] if item.kind is Growth.DISTINCT else item.labels
        shown = ", ".join(labels) or "-"
        rows.add(f"| `{item.name}` | {kinds.get(item.kind, 'gauge')} | {shown} | {item.help} |")
    text = (DOCS / "metrics.md").read_text()
    assert {line for line in text.splitlines() if line.startswith("| `aviso_")} == rows
    assert {name for name in set(_METRIC.findall(text)) if name != "aviso_sse_"} == {
        item.name for item in SERIES
    }


@pytest.mark.parametrize("file", ["grafana/aviso-server.json", "prometheus/alerts.yml"])
def test_dashboard_and_alerts_use_metrics_that_exist(file: str) -> None:
    """Every series and label in deploy/ is one of the server's; the dashboard shows them all."""
    text = (ROOT / "deploy" / file).read_text()
    known = {item.name for item in SERIES}
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in _METRIC.findall(text)}
    assert used <= known
    if file.endswith(".json"):
        json.loads(text)
        assert used == known
    else:
        (group,) = yaml.safe_load(text)["groups"]
        names = [rule["alert"] for rule in group["rules"]]
        assert len(names) == len(set(names)) > 10
        assert all(rule["annotations"]["summary"] for rule in group["rules"])


def test_every_module_is_on_the_tour() -> None:
    """docs/architecture.md names each module beside its package, or its folder with a slash."""
    tour = (DOCS / "architecture.md").read_text()
    sections = [
        {word.removesuffix(".py") for word in re.findall(r"[`\[]([\w./]+)[`\]]", section)}
        for section in tour.split("\n## ")
    ]
    source = ROOT / "src" / "aviso_server"
    missing: list[str] = []
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).with_suffix("")
        folder, name = module.parent.as_posix(), module.name
        named = any(
            words & {f"{folder}/", module.as_posix()} or {name, folder} <= words | {"."}
            for words in sections
        )
        if name != "__init__" and not named:
            missing.append(module.as_posix())
    assert missing == []


def test_the_tour_has_every_layer() -> None:
    """The layers in docs/architecture.md are those that .importlinter enforces, in order."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].split("\n")
    tour = (DOCS / "architecture.md").read_text().split("## Layers\n")[1]
    shown = re.findall(r"^    (\w+(?: \| \w+)*)  ", tour, re.MULTILINE)
    assert shown == [layer.replace("aviso_server.", "") for layer in layers if layer]


def test_no_file_knows_this_machine() -> None:
    """No file names a package registry's host, or a path of the machine it was made on."""
    hosts = ("pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "crates" + ".io")
    folders = ("/" + "work/", "/" + "root/")
    found: list[str] = []
    for path in _files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{_page(path)}: {word}" for word in (*hosts, *folders) if word in text]
    assert found == []


def _files() -> Iterator[Path]:
    """What belongs to the project; not what its recipes make."""
    for folder in ("src", "tests", "docs", "bench", "examples", "deploy", ".ci", ".github"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not {"__pycache__", "results"} & set(path.parts):
                yield path
    # In a second working tree `.git` is a file that names the first.
    yield from (path for path in ROOT.glob("*") if path.is_file() and path.name != ".git")
