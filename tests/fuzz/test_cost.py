"""The dearest body there is: searched for, and held to the budget of one turn of the loop."""

from collections.abc import Callable
from random import Random

from support.config import SCHEMAS, settings
from support.cost import cpu_ns, loop_ns
from support.fuzz import examples, seed
from support.mutate import BODIES, mutated

from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import AvisoError
from aviso_server.core.identifier import compile_filter
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.core.wire import parse_request
from aviso_server.relay.turns import TURN_BYTES
from aviso_server.telemetry.redaction import redact

CATALOGUE = Catalogue(settings(schemas=SCHEMAS).catalogue.schemas.values(), strict=False)

BUDGET = 5.0
"""In loops of ``loop_ns``, each about a millisecond of this machine: a quarter of what one turn may
cost, for the rest of a request comes on top. Bodies over ``TURN_BYTES`` are not parsed on the loop.
The dearest that 8000 tries found took half a loop."""

TRIES = examples(600)
POOL = 12
"""Bodies that are mutated further: the dearest by byte so far."""


def handle(body: bytes) -> None:
    """All that is done with a body on the loop before anything is stored, and with its refusal."""
    for operation in (Operation.NOTIFY, Operation.REPLAY):
        try:
            request = parse_request(body)
            schema = CATALOGUE.find(request.event_type)
            if operation is Operation.NOTIFY:
                notification_of(schema, request)
            else:
                compile_filter(schema, request.identifier, operation)
        except AvisoError as error:
            redact({"error": error.message, "details": error.details})


def climb(rng: Random, bodies: list[bytes], tries: int, cost: Callable[[bytes], float]) -> float:
    """Mutate bodies, the dearest by byte further and further; the cost of the dearest."""
    pool = [(0.0, body) for body in bodies]
    dearest = 0.0
    for _ in range(tries):
        body = mutated(rng, rng.choice(pool)[1], bodies, longest=TURN_BYTES)
        if body:
            spent = cost(body)
            dearest = max(dearest, spent)
            # Small bodies are dear by the byte, and harmless.
            pool.append((spent / max(len(body), TURN_BYTES // 8), body))
            pool = sorted(pool, reverse=True)[:POOL]
    return dearest


def test_no_body_costs_more_than_a_turn_may() -> None:
    """Hill climbing by processor time per byte; what is found is shown if it is too dear."""
    number = seed()
    loop = loop_ns()

    def cost(body: bytes) -> float:
        spent = cpu_ns(lambda: handle(body), attempts=1)
        if spent > BUDGET * loop:
            # Something else may have run in between: the least of some attempts counts.
            spent = cpu_ns(lambda: handle(body))
            assert spent <= BUDGET * loop_ns(), f"seed {number}: {spent} ns for {body[:500]!r}"
        return spent

    bodies = [body for known in BODIES.values() for body in known]
    assert climb(Random(number), bodies, TRIES, cost) > 0


def test_the_search_finds_what_is_dear() -> None:
    """The same search climbs to bodies of quadratic cost, far above what it began with."""
    seeds = [b'"a\\"b"', b'\\"' * 8]

    def quadratic(body: bytes) -> float:
        return float(body.count(b'\\"') ** 2)

    assert climb(Random(1), seeds, 300, quadratic) > 1000 * max(map(quadratic, seeds))
