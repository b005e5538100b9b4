"""The questions of docs/query.md, asked of a synthetic history."""

import re
from datetime import date
from pathlib import Path

import pytest

from aviso_server import settings
from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.layout import Place
from aviso_server.lake.query.engine import EngineOptions, ask
from aviso_server.lake.query.views import LakeViews, open_views
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.lake.typed.follow import TypedTables
from tools import synth

ROOT = Path(__file__).parents[3]
QUESTIONS = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "query.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> LakeViews:
    """Three days of every event type of the example configuration, of which some is deleted."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    plan = synth.Plan.of(date(2026, 1, 1), days=3, count=6000, seed=7)
    writer, marks = FileWriter(place), dict[str, int]()
    for part in synth.parts(plan):
        for batch in synth.rows(plan, part):
            writer.write(batch)
        marks[part.event_type] = max(marks.get(part.event_type, 0), part.first + part.count - 1)
    commit(place, writer.close(), marks)
    append_tombstones(place, [("mars", 10, 20)], kind="deleted")
    example = settings.load(
        config_file=ROOT / "examples" / "config.yaml", environ={}, cwd=ROOT, home=None
    )
    followed = list(TypedTables(place).follow(example.catalogue.schemas.values()))
    assert {item.problem for item in followed} == {None}
    assert sum(item.updated.rows for item in followed) == plan.count - 11
    return open_views(place)


def test_there_are_ten() -> None:
    """As the page says."""
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("number", range(10))
def test_every_question_has_an_answer(views: LakeViews, number: int) -> None:
    """It runs as it stands on the page, and finds something."""
    with ask(views, QUESTIONS[number], EngineOptions(threads=1)) as reader:
        assert reader.read_all().num_rows > 0
