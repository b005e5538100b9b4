"""What a publish costs the hub's index, by the number and kind of distinct filters; in-process.

Three kinds, because the index treats them differently: an exact text is looked up, a range and
an area are tested. Each publish is a notification that few of the filters match.
"""

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

from bench.figures import Value
from bench.served import CONFIG

from aviso_server.core.announcement import notification_of
from aviso_server.core.identifier import compile_filter
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.core.wire import NotificationRequest
from aviso_server.relay.index import Index
from aviso_server.settings import load

_BUDGET_S = 0.25
"""How long one sample may take: slow cases publish less often."""

_Identifier = dict[str, Json]


def publish_cost(
    counts: tuple[int, ...], runs: int, progress: Callable[[str], None]
) -> Iterator[Value]:
    """Microseconds per publish to find the groups a notification is for."""
    catalogue = load(config_file=CONFIG, environ={}, cwd=Path.cwd(), home=None).catalogue
    for kind, event_type, wanted, announced in (
        ("exact", "dissemination", _destination, _product),
        ("range", "mars", _steps, _field),
        ("area", "test_polygon", _area, _patch),
    ):
        published = [_notification(catalogue, event_type, announced(n)) for n in range(200)]
        for count in counts:
            progress(f"{count} distinct {kind} filters")
            schema = catalogue.find(event_type)
            index: Index[int] = Index()
            for n in range(count):
                index.add(compile_filter(schema, wanted(n), Operation.WATCH), n)
            samples = tuple(_sample(index, published) for _ in range(runs + 1))
            yield Value(f"index with {count} {kind} filters", "us/publish", samples[1:])


def _sample(index: Index[int], published: list[Notification]) -> float:
    done, began, lasted = 0, perf_counter(), 0.0
    endless = cycle(published)
    while lasted < _BUDGET_S:
        for notification in islice(endless, 10):
            for _ in index.matching(notification):
                pass
        done += 10
        lasted = perf_counter() - began
    return lasted / done * 1e6


def _notification(catalogue: Catalogue, event_type: str, identifier: _Identifier) -> Notification:
    request = NotificationRequest(event_type=event_type, identifier=identifier, payload=None)
    return notification_of(catalogue.find(event_type), request)


def _destination(n: int) -> _Identifier:
    return {"destination": f"D{n}", "target": "E1"}


def _product(n: int) -> _Identifier:
    return {**_FIELD, "destination": f"D{n}", "target": "E1", "step": 6}


def _steps(n: int) -> _Identifier:
    return {"class": "od", "step": {"between": [n, n + 1]}}


def _field(n: int) -> _Identifier:
    return {**_FIELD, "step": n}


def _area(n: int) -> _Identifier:
    return {"polygon": _square(n)}


def _patch(n: int) -> _Identifier:
    return {"date": "20250706", "time": "1200", "polygon": _square(37 * n)}


def _square(n: int) -> Json:
    """One of 25 200 squares of 0.8 degrees side that do not touch each other."""
    lat, lon = -70.0 + (n // 180) % 140, -180.0 + 2 * (n % 180)
    ring = ((0.0, 0.0), (0.0, 0.8), (0.8, 0.8), (0.8, 0.0), (0.0, 0.0))
    return [[lat + north, lon + east] for north, east in ring]


_FIELD: _Identifier = {
    "class": "od",
    "expver": "0001",
    "domain": "g",
    "date": "20250706",
    "time": "1200",
    "stream": "oper",
}
