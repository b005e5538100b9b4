"""The comparison of servers, in small: one with itself."""

import sys
from pathlib import Path

import pytest

# The benchmark is not installed; it is run from the repository.
sys.path.append(str(Path(__file__).parents[1]))

from bench.compare import Comparison, Contest
from bench.figures import Figure, Value
from bench.peers import running
from bench.rates import Sizes
from bench.served import Conditions, served
from bench.worker import worker

SMALL = Sizes(compared=20, crowd=25, deliveries=500, connections=4, runs=1)


def test_a_server_is_compared_with_itself(tmp_path: Path) -> None:
    """Found by its port, it stores, replays and delivers exactly what it was sent."""
    with served(Conditions(), "compare") as server, worker() as sending, worker() as reading:
        url = f"http://127.0.0.1:{server.port}"
        found = [running(url, None, "1001")]
        assert found[0].processes == server.processes
        rows = list(Contest(found, SMALL, sending, reading, lambda _: None).rows())
    comparison = Comparison(rows, [])
    assert {type(item) for item in comparison.items()} == {Figure, Value}
    assert [line.split(" | ")[0] for line in comparison.markdown().splitlines()[2:]] == [
        "| memory per idle watcher",
        "| memory with 25 watchers",
        "| replay of 20, 1 reader",
        "| notify, 1 connection",
        "| notify, 4 connections",
        "| fan-out to 25, 8 producers",
        "| fan-out to 25, 1 producer",
    ]
    comparison.draw(tmp_path / "compare.svg")
    assert "<rect" in (tmp_path / "compare.svg").read_text()


def test_only_servers_of_this_machine_are_loaded() -> None:
    """Nobody loads somebody else's server by mistake."""
    with pytest.raises(SystemExit, match="can be compared with"):
        running("http://aviso.example.org:80", None, "1001")
