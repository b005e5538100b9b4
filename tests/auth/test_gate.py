"""The gate: what each policy wants to know, and what is counted."""

from dataclasses import dataclass, field

import pytest

from aviso_server.auth.access import AccessRules, Policy
from aviso_server.auth.gate import Gate, NotRecognised
from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import (
    Forbidden,
    MalformedHeader,
    Refusal,
    Unauthorized,
    Unavailable,
    Undecided,
)
from aviso_server.core.filter import Filter
from aviso_server.core.schema import Schema, StreamAccess

NOW_NS = 1_000_000_000_000
NAMED = (Policy.ADMIN, Policy.USER)
STREAMS = (Policy.READ, Policy.WRITE)


@dataclass
class Answers:
    """An authenticator that says what a test wants; remembers whether it was closed."""

    answer: Identity | Refusal
    mode: str = "direct"
    challenges: tuple[str, ...] = ("Bearer",)
    asked: list[str] = field(default_factory=list)
    closed: bool = False

    async def identify(self, authorization: str) -> Identity:
        self.asked.append(authorization)
        if isinstance(self.answer, Refusal):
            raise self.answer
        return self.answer

    def remembered(self, _: str) -> Identity | None:
        if isinstance(self.answer, MalformedHeader):
            raise self.answer
        return None if isinstance(self.answer, Refusal) else self.answer

    async def close(self) -> None:
        self.closed = True


class Counted:
    """Writes down which credentials were decided, and how."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def auth_decided(self, mode: str, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.said.append((mode, outcome))


BOSS = Identity("boss", "r", ("admin",), NOW_NS + 1)
USER = Identity("user", "r", (), NOW_NS + 1)


def gate(answer: Identity | Refusal) -> tuple[Gate, Answers, Counted]:
    answers, counted = Answers(answer), Counted()
    made = Gate(answers, AccessRules({"r": ("admin",)}), lambda: NOW_NS, metrics=counted)  # type: ignore[arg-type]
    return made, answers, counted


async def test_public_routes_ask_nobody() -> None:
    """Not even when a credential is there."""
    made, answers, counted = gate(Unauthorized("no"))
    assert await made.identify(Policy.PUBLIC, "Bearer x") is None
    assert (answers.asked, counted.said) == ([], [])


@pytest.mark.parametrize("policy", NAMED + STREAMS)
async def test_without_a_header(policy: Policy) -> None:
    """Anonymous on streams, refused elsewhere; no credential was decided."""
    made, _, counted = gate(BOSS)
    if policy in STREAMS:
        assert await made.identify(policy, None) is None
    else:
        with pytest.raises(Unauthorized, match="Authorization header is required"):
            await made.identify(policy, None)
    assert counted.said == []


@pytest.mark.parametrize("policy", NAMED + STREAMS)
async def test_a_malformed_header(policy: Policy) -> None:
    """Counts as none on streams, and is reported elsewhere."""
    made, _, counted = gate(MalformedHeader("bad"))
    if policy in STREAMS:
        assert await made.identify(policy, "x") is None
        assert counted.said == []
    else:
        with pytest.raises(MalformedHeader):
            await made.identify(policy, "x")
        assert counted.said == [("direct", "unauthorized")]


@pytest.mark.parametrize("policy", NAMED + STREAMS)
@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        (Unauthorized("no"), "unauthorized"),
        (Forbidden("no"), "forbidden"),
        (Unavailable("no"), "service_unavailable"),
    ],
)
async def test_a_rejected_credential(policy: Policy, refusal: Refusal, outcome: str) -> None:
    """Refused under every policy, and counted."""
    made, _, counted = gate(refusal)
    with pytest.raises(type(refusal)):
        await made.identify(policy, "x")
    assert counted.said == [("direct", outcome)]


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("authorization", ["x", None])
@pytest.mark.parametrize(
    "answer",
    [BOSS, USER, Identity("late", "r", (), NOW_NS), Unauthorized("no"), MalformedHeader("x")],
)
async def test_whom_it_recognises_it_would_identify(
    policy: Policy, authorization: str | None, answer: Identity | Refusal
) -> None:
    """Nobody else, under every policy, and without counting."""
    made, answers, counted = gate(answer)
    try:
        recognised = made.recognise(policy, authorization)
    except (Refusal, NotRecognised):
        pass
    else:
        assert recognised == await made.identify(policy, authorization)
        assert len(counted.said) == len(answers.asked)


async def test_an_accepted_credential() -> None:
    """Counted once; administrators must also be administrators."""
    for policy in NAMED + STREAMS:
        made, _, counted = gate(BOSS)
        assert await made.identify(policy, "x") == BOSS
        assert counted.said == [("direct", "success")]
    made, _, counted = gate(USER)
    with pytest.raises(Forbidden):
        await made.identify(Policy.ADMIN, "x")
    assert counted.said == [("direct", "forbidden")]


async def test_only_reading_needs_a_future() -> None:
    """A stream must end at ``exp``, so it cannot begin there."""
    made, _, _ = gate(Identity("user", "r", ("admin",), NOW_NS))
    for policy in (*NAMED, Policy.WRITE):
        assert await made.identify(policy, "x") is not None
    with pytest.raises(Unauthorized, match="Invalid or expired token"):
        await made.identify(Policy.READ, "x")


async def test_a_plugin_that_is_not_there_lets_nobody_in() -> None:
    """Missing wiring is a fault of the server, not a way in."""
    made, _, _ = gate(BOSS)
    guarded = Schema("d", access=StreamAccess(required=True, plugins=("ecpds",)))
    for who in (BOSS, USER, None):
        with pytest.raises(Undecided, match="Server configuration error"):
            await made.entitle(guarded, who, Filter())
    await made.entitle(Schema("e"), None, Filter())


async def test_closing_closes_everything() -> None:
    """The authenticator, and whatever else was opened for it."""
    made, answers, _ = gate(BOSS)
    await made.close()
    assert answers.closed
