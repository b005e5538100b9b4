"""What is expected of the notifications of an event type (docs/jobs/quality.md). Pure.

Nothing is refused for it: notifications are stored as they come, and what was not expected of them
is counted and reported.
"""

from dataclasses import dataclass

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import Field, ScalarField, scalar_text
from aviso_server.core.filter import Filter
from aviso_server.core.json import Json, compact

PAYLOAD = "payload"
"""Names the payload in ``present``; ``payload.a.b`` a member of it."""


@dataclass(frozen=True, slots=True)
class ExpectedValue:
    """A field that a notification has should match one of these."""

    field: str
    any_of: tuple[Filter, ...]
    text: str
    """As it was declared, in JSON."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """All that is expected of an event type."""

    values: tuple[ExpectedValue, ...] = ()
    present: tuple[str, ...] = ()
    """What every notification should have: fields, the payload, members of it."""
    every_s: int | None = None
    """The newest notification should be no older."""
    per_cycle: int | None = None
    """Distinct identifiers that each date and time should have."""

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING = Expectations()


def expected_value(declared: Field | None, name: str, wanted: Json) -> ExpectedValue:
    """A declared expectation of a field; InvalidRequest if it cannot be one.

    It is a constraint as filters have them, a value, or a list of values.
    """
    if not isinstance(declared, ScalarField):
        raise InvalidRequest(f"'{name}' is not a field whose values are text or numbers")
    if isinstance(wanted, dict):
        choices: tuple[Filter, ...] = (Filter(constraints=(declared.constrain(wanted),)),)
    else:
        values = wanted if isinstance(wanted, list) else [wanted]
        if not values:
            raise InvalidRequest("is empty: no value would be expected")
        texts = (declared.canonical(scalar_text(name, value)) for value in values)
        choices = tuple(Filter(exact=((name, text),)) for text in texts)
    return ExpectedValue(name, choices, compact(wanted).decode())
