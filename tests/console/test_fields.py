"""Fields of a form from a schema, and identifiers from a form: by the server's own rules."""

import json
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import config
from support.browser import Tab
from support.process import ServerProcess

from aviso_server.core.constraint import Constraint
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.field import ScalarField
from aviso_server.core.identifier import compile_filter, read_identifier
from aviso_server.core.json import Json
from aviso_server.core.operation import Operation

DECLARED: dict[str, Json] = {
    "class": {"type": "StringHandler", "required": True, "max_length": 3, "description": "MARS"},
    "date": {"type": "DateHandler", "required": False, "canonical_format": "%Y-%m-%d"},
    "expver": {"type": "ExpverHandler", "required": False, "default": "1"},
    "level": {"type": "FloatHandler", "required": False, "range": [-1, 200.5]},
    "other": {"type": "ExpverHandler", "required": False},
    "region": {"type": "EnumHandler", "required": False, "values": ["North", "south", "Élan"]},
    "step": {"type": "IntHandler", "required": False, "range": [0, 240]},
    "time": {"type": "TimeHandler", "required": False},
    "wide": {"type": "IntHandler", "required": False},
    "polygon": {"type": "PolygonHandler", "required": False},
}
CLOUD: dict[str, Json] = {
    "point_cloud": {"type": "PointCloudHandler", "required": True, "max_points": 3}
}
SCHEMAS = config.settings(
    schemas={
        "mixed": {"topic": {"base": "mixed", "key_order": ["class"]}, "identifier": DECLARED},
        "cloud": {
            "topic": {"base": "cloud", "key_order": ["class"]},
            "identifier": {**CLOUD, "class": {"type": "StringHandler", "required": False}},
        },
    }
).catalogue.schemas
MIXED, POINTS = SCHEMAS["mixed"], SCHEMAS["cloud"]

FIELDS = """async (view) => (await import("/static/console/form/fields.js")).fieldsOf(view)"""
FORMS = """async ([view, name, forms]) => {
  const fields = await import("/static/console/form/fields.js");
  // As text, so that what is looked at is what would be sent.
  return forms.map((form) => JSON.stringify(fields[name](fields.fieldsOf(view), form)));
}"""


def forms(page: Tab, name: str, given: list[Any], schema: Any = MIXED) -> list[dict[str, Any]]:
    """What ``filterOf`` or ``announcementOf`` makes of each filled in form."""
    answers = page.page.evaluate(FORMS, [schema.view(), name, given])
    return [json.loads(answer) for answer in answers]


def filtered(page: Tab, given: dict[str, Any], schema: Any = MIXED) -> Any:
    """The identifier of one filter, or its problems."""
    (answer,) = forms(page, "filterOf", [given], schema)
    return answer["problems"] or answer["identifier"]


def test_fields_of_a_schema(page: Tab) -> None:
    """A field has what a form needs, by its kind; what is not configured is null or empty."""
    fields = {field["name"]: field for field in page.page.evaluate(FIELDS, MIXED.view())}
    assert fields["class"] == {
        "name": "class",
        "kind": "text",
        "required": True,
        "description": "MARS",
        "values": None,
        "range": None,
        "maxLength": 3,
        "default": None,
        "maxPoints": None,
        "format": None,
        "operators": ["eq"],
    }
    numeric = ["any", "eq", "in", "between", "gte", "lte", "gt", "lt"]
    assert {name: (field["kind"], field["operators"]) for name, field in fields.items()} == {
        "class": ("text", ["eq"]),
        "date": ("date", ["any", "eq"]),
        "expver": ("expver", ["any", "eq"]),
        "level": ("number", numeric),
        "other": ("expver", ["any", "eq"]),
        "region": ("choice", ["any", "eq", "in"]),
        "step": ("integer", numeric),
        "time": ("time", ["any", "eq"]),
        "wide": ("integer", numeric),
        "polygon": ("polygon", ["any", "area", "point"]),
    }
    assert fields["region"]["values"] == ["North", "south", "Élan"]
    assert (fields["step"]["range"], fields["level"]["range"]) == ([0, 240], [-1, 200.5])
    assert (fields["expver"]["default"], fields["date"]["format"]) == ("1", "%Y-%m-%d")

    cloud, text = page.page.evaluate(FIELDS, POINTS.view())
    assert (cloud["kind"], cloud["maxPoints"], cloud["operators"]) == ("cloud", 3, ["area"])
    assert (text["kind"], text["description"], text["maxLength"]) == ("text", "", None)


def test_fields_stand_in_the_order_of_the_topic(page: Tab) -> None:
    """As people think of them; a place, and what a topic does not have, comes last."""
    identifier = {
        name: {"type": "StringHandler"} for name in ("area", "class", "date", "step", "z")
    }
    view = {"identifier": identifier, "order": ["class", "step", "date", "gone"]}
    names = [field["name"] for field in page.page.evaluate(FIELDS, view)]
    assert names == ["class", "step", "date", "area", "z"]


def test_types_and_names_nobody_knows(page: Tab) -> None:
    """A type of a later server is text; names that mean something to JavaScript are names."""
    view = {"identifier": {"constructor": {"type": "constructor", "required": False}}}
    view["identifier"]["hasOwnProperty"] = {"type": "toString", "required": True}
    fields = page.page.evaluate(FIELDS, view)
    assert [(field["kind"], field["operators"]) for field in fields] == [
        ("text", ["any", "eq"]),
        ("text", ["eq"]),
    ]
    proto = """async () => {
      const { fieldsOf, filterOf, announcementOf } = await import("/static/console/form/fields.js");
      const view = '{"identifier":{"__proto__":{"type":"StringHandler","required":true}}}';
      const fields = fieldsOf(JSON.parse(view));
      const form = JSON.parse('{"__proto__":{"op":"eq","value":"x"}}');
      return JSON.stringify([
        filterOf(fields, form), filterOf(fields, {}), announcementOf(fields, {}),
      ]);
    }"""
    given, missing, empty = json.loads(page.page.evaluate(proto))
    assert given == {"identifier": {"__proto__": "x"}, "problems": {}}
    assert list(missing["problems"]) == list(empty["problems"]) == ["__proto__"]


CLASS = {"class": {"op": "eq", "value": "od"}}
WIRE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"step": {"op": "any", "value": "7"}}, {}),
    ({"step": {"op": "eq", "value": "24"}}, {"step": "24"}),
    ({"step": {"op": "eq", "value": " +24 "}}, {"step": "+24"}),
    ({"step": {"op": "in", "values": ["0", "024"]}}, {"step": {"in": [0, 24]}}),
    ({"step": {"op": "between", "low": "0", "high": "24"}}, {"step": {"between": [0, 24]}}),
    ({"step": {"op": "gte", "value": "6"}}, {"step": {"gte": 6}}),
    ({"step": {"op": "lte", "value": "6"}}, {"step": {"lte": 6}}),
    ({"step": {"op": "gt", "value": "6"}}, {"step": {"gt": 6}}),
    ({"step": {"op": "lt", "value": "6"}}, {"step": {"lt": 6}}),
    ({"level": {"op": "eq", "value": "12.50"}}, {"level": "12.50"}),
    ({"level": {"op": "gte", "value": ".5"}}, {"level": {"gte": 0.5}}),
    ({"level": {"op": "in", "values": ["1e2", "1."]}}, {"level": {"in": [100, 1]}}),
    ({"region": {"op": "eq", "value": "NORTH"}}, {"region": "NORTH"}),
    ({"region": {"op": "in", "values": ["North", "élan"]}}, {"region": {"in": ["North", "élan"]}}),
    ({"wide": {"op": "eq", "value": "9007199254740993"}}, {"wide": "9007199254740993"}),
    ({"date": {"op": "eq", "value": "2025-12-25"}}, {"date": "2025-12-25"}),
    ({"time": {"op": "eq", "value": "12:00"}}, {"time": "12:00"}),
    ({"expver": {"op": "eq", "value": " 1 "}}, {"expver": " 1 "}),
    # Nothing given is no condition.
    ({"step": {"op": "eq", "value": ""}, "region": {"op": "in", "values": []}}, {}),
    ({"step": {"op": "between", "low": "", "high": ""}, "level": {"op": "gt"}}, {}),
    ({"polygon": {"op": "area"}}, {}),
    (
        {"polygon": {"op": "area", "polygon": [[0, 0], [0, 1], [1, 1], [0, 0]]}},
        {"polygon": [[0, 0], [0, 1], [1, 1], [0, 0]]},
    ),
    (
        {"polygon": {"op": "area", "polygon": "0,0 0,1 1,1"}},
        {"polygon": [[0, 0], [0, 1], [1, 1], [0, 0]]},
    ),
    ({"polygon": {"op": "point", "point": [52.5, 13.4]}}, {"point": [52.5, 13.4]}),
    ({"polygon": {"op": "point", "point": "52.5, 13.4"}}, {"point": [52.5, 13.4]}),
]


def test_wire_form(page: Tab) -> None:
    """A condition is sent in the wire's form, which the server takes."""
    answers = forms(page, "filterOf", [{**CLASS, **form} for form, _ in WIRE])
    for (form, sent), answer in zip(WIRE, answers, strict=True):
        assert answer == {"identifier": {"class": "od", **sent}, "problems": {}}, form
        compile_filter(MIXED, answer["identifier"], Operation.WATCH)


def test_errors_about_a_place(page: Tab) -> None:
    """Whatever the request calls it, a place belongs to the one field the form has for it."""
    place_of = """async (asked) => {
      const { placeOf } = await import("/static/console/form/fields.js");
      return asked.map(([name, names]) => placeOf(name, names));
    }"""
    asked = [
        *(["point", ["class", "polygon"]], ["polygon", ["point_cloud"]], ["point", ["class"]]),
        *(["polygon", ["polygon"]], ["step", ["polygon"]], [None, ["polygon"]]),
    ]
    answers = page.page.evaluate(place_of, asked)
    assert answers == ["polygon", "point_cloud", None, "polygon", "step", None]


def test_filters_that_cannot_be(page: Tab) -> None:
    """What the server would refuse is a problem of its field, and nothing of it is sent."""
    ring = [[0, 0], [0, 1], [1, 1]]
    wrong: dict[str, dict[str, Any]] = {
        "A whole number is wanted.": {"step": {"op": "eq", "value": "1.5"}},
        "241 is outside 0 to 240.": {"step": {"op": "in", "values": ["1", "241"]}},
        "The first number is larger than the second.": {
            "step": {"op": "between", "low": "7", "high": "6"}
        },
        "A number is wanted, such as 12.5.": {"level": {"op": "gt", "value": "0x1"}},
        "Too large to compare with; use one value.": {
            "wide": {"op": "gte", "value": "9007199254740993"}
        },
        "This number is too large.": {"wide": {"op": "eq", "value": "9223372036854775808"}},
        "One of North, south, Élan is wanted.": {"region": {"op": "eq", "value": "west"}},
        "“gt” cannot be asked of this field.": {"region": {"op": "gt", "value": "north"}},
        "A date is wanted, such as 2025-12-25, 20251225 or 2025-359.": {
            "date": {"op": "eq", "value": "2025-02-29"}
        },
        "A time is wanted, such as 14:30, 1430 or 14.": {"time": {"op": "eq", "value": "24"}},
        "This is not a closed ring of [latitude, longitude].": {
            "polygon": {"op": "area", "polygon": ring}
        },
        "This is not a [latitude, longitude].": {"polygon": {"op": "point", "point": [91, 0]}},
    }
    for words, form in wrong.items():
        assert filtered(page, {**CLASS, **form}) == {next(iter(form)): words}
    half = {"step": {"op": "between", "low": "1", "high": ""}}
    assert filtered(page, {**CLASS, **half}) == {"step": "A whole number is wanted."}
    long = {"class": {"op": "eq", "value": "abcd"}}
    assert filtered(page, long) == {"class": "4 characters are more than 3."}


def test_required(page: Tab) -> None:
    """A required field needs a condition; on point clouds an area is one."""
    needed = "This event type cannot be followed without it."
    for form in ({}, {"class": {"op": "any"}}, {"class": {"op": "eq", "value": ""}}):
        assert filtered(page, form) == {"class": needed}
    assert filtered(page, {}, POINTS) == {"point_cloud": needed}
    area = {"op": "area", "polygon": "0,0 0,1 1,1"}
    sent = filtered(page, {"point_cloud": area}, POINTS)
    assert sent == {"polygon": [[0, 0], [0, 1], [1, 1], [0, 0]]}
    compile_filter(POINTS, sent, Operation.REPLAY)


JS_BLANKS = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
SCALARS = [name for name in DECLARED if name != "polygon"]
NUMERALS = st.one_of(
    st.integers(-300, 300).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False).map(repr),
    st.text("0123456789+-.eE_x", max_size=6),
    st.sampled_from(["inf", "NaN", "1e400", "-0", "+7", "007", "1_0", " 5", "5\u2003", "٣"]),
)
WORDS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["north", "NORTH", "SoUtH", "ÉLAN", "élan", "e\u0301lan", "*", "𝒳𝒳𝒳", " "]),
)
MOMENTS = st.one_of(
    st.from_regex(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", fullmatch=True),
    st.from_regex(r"(19|20)[0-9]{2}-[0-3][0-9]{2}", fullmatch=True),
    st.dates().map(str),
    st.from_regex(r"[0-9]{1,2}:?[0-9]{0,2}", fullmatch=True),
    st.sampled_from(["2024-366", "2025-366", "2025-000", "0000-01-01", "00000101", "0001-001"]),
    st.text("0123456789-: ", max_size=11),
)
TEXTS = NUMERALS | WORDS | MOMENTS


def canonical(name: str, text: str) -> str | None:
    """What the server makes of a text; None if it refuses."""
    field = MIXED.by_name[name]
    assert isinstance(field, ScalarField)
    try:
        return field.canonical(text)
    except InvalidRequest:
        return None


EDGES = [
    *("0000-01-01", "00000101", "0000-001", "0001-01-01", "00010101", "9999-12-31", "0001-001"),
    *("2023-02-29", "2024-02-29", "20230229", "20240229", "1900-02-29", "2000-02-29", "2025-04-31"),
    *("2025-00-01", "2025-13-01", "2025-01-00", "2025-01-32", "2025-1225", "202512-25", "2025-12"),
    *("2024-366", "2025-366", "2025-365", "2025-000", "2025-367", "2024-999", "2025-36", "2025366"),
    *(
        "0",
        "9",
        "23",
        "24",
        "000",
        "0000",
        "2359",
        "2400",
        "1260",
        "0:00",
        "9:05",
        "12:60",
        "24:00",
    ),
    *(
        "12:5",
        ":30",
        "12:",
        "12:30:00",
        "12a4",
        "0905",
        "240",
        "241",
        "-0",
        "+0",
        "0240",
        "-1",
        "-",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "0" * 30 + "7"),
    *("-9223372036854775809", "1.", ".5", ".", "1e", "1e2", "200.5", "200.50001", "-1.0", "1e400"),
    *(
        "",
        " ",
        "abc",
        "abcd",
        "𝒳𝒳𝒳",
        "𝒳𝒳𝒳𝒳",
        "north",
        "SOUTH",
        "ÉLAN",
        "nort",
        "\u0130",
        "0x1",
        "1_0",
    ),
]


def agree(page: Tab, given: list[tuple[str, str]]) -> None:
    """The page refuses a value exactly if the server does, and else sends it as it was written.

    Blanks around numbers, dates and times are not: the server would refuse them.
    """
    answers = forms(page, "announcementOf", [{name: text} for name, text in given])
    for (name, text), answer in zip(given, answers, strict=True):
        bare = text if name in {"class", "region", "expver", "other"} else text.strip(JS_BLANKS)
        if name in answer["problems"]:
            assert canonical(name, bare) is None, (name, text, answer["problems"])
        else:
            assert answer["identifier"][name] == bare
            assert canonical(name, bare) is not None, (name, text)


def test_edges_of_values(page: Tab) -> None:
    """Every field agrees with the server on what lies at the edge of any."""
    agree(page, list(product(SCALARS, EDGES)))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(SCALARS), TEXTS), min_size=1, max_size=40))
def test_values_agree_with_the_server(page: Tab, given: list[tuple[str, str]]) -> None:
    """Every field agrees with the server on any text."""
    agree(page, given)


OPERATORS = st.sampled_from(["eq", "in", "between", "gte", "lte", "gt", "lt"])
CONDITIONS = st.fixed_dictionaries(
    {"op": OPERATORS, "value": NUMERALS, "values": st.lists(NUMERALS, max_size=2)}
    | dict.fromkeys(("low", "high"), NUMERALS | st.integers(0, 9).map(str))
)


def compiled(name: str, wire: Any) -> Constraint | str | None:
    """What the server makes of a condition; None if it refuses."""
    try:
        found = compile_filter(MIXED, {"class": "od", name: wire}, Operation.WATCH)
    except InvalidRequest:
        return None
    return found.constraints[0] if found.constraints else dict(found.exact)[name]


def number(name: str, text: str) -> Any:
    """The operand a text spells, by the field's own rule; None if it spells none."""
    value = canonical(name, text.strip(JS_BLANKS))
    if value is None:
        return None
    return float(value) if name == "level" else int(value)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["step", "level", "wide"]), CONDITIONS), min_size=1, max_size=20
    )
)
def test_constraints_agree_with_the_server(page: Tab, given: list[tuple[str, Any]]) -> None:
    """A constraint is sent exactly if the server takes it, and means what the form says."""
    answers = forms(page, "filterOf", [{**CLASS, name: form} for name, form in given])
    for (name, form), answer in zip(given, answers, strict=True):
        operands = {"in": form["values"], "between": [form["low"], form["high"]]}
        texts = operands.get(form["op"], [form["value"]])
        if form["op"] == "eq" or not any(texts):
            continue
        numbers = [number(name, text) for text in texts]
        if any(isinstance(item, int) and abs(item) >= 2**53 for item in numbers):
            assert name in answer["problems"], "beyond what JSON numbers of a browser can say"
            continue
        wire = {form["op"]: numbers if form["op"] in operands else numbers[0]}
        expected = None if None in numbers else compiled(name, wire)
        assert (name in answer["problems"]) == (expected is None), (name, form, answer)
        if expected is not None:
            assert compiled(name, answer["identifier"][name]) == expected


FULL = {
    "class": "od",
    "date": "2025-12-25",
    "expver": "",
    "level": "12.5",
    "other": "PROD",
    "region": "North",
    "step": "24",
    "time": "12:00",
    "wide": "9223372036854775807",
    "polygon": "0,0 0,1 1,1",
}


def test_announcement(page: Tab) -> None:
    """A full form is an identifier the server takes; an empty default is left to the server."""
    (answer,) = forms(page, "announcementOf", [FULL])
    assert answer["problems"] == {}
    ring = [[0, 0], [0, 1], [1, 1], [0, 0]]
    assert answer["identifier"] == {**FULL, "polygon": ring}
    stored = read_identifier(MIXED, answer["identifier"])
    assert stored.values["expver"] == "0001"

    (drawn,) = forms(page, "announcementOf", [{**FULL, "polygon": ring}])
    assert drawn == answer


def test_announcement_of_points(page: Tab) -> None:
    """Points come as text or as pairs, as many as the schema allows."""
    typed, listed, many, none, wrong = forms(
        page,
        "announcementOf",
        [
            {"class": "od", "point_cloud": points}
            for points in ("52.5,13.4\n10,10", [[1, 2]], [[1, 2]] * 4, "", [[1]])
        ],
        POINTS,
    )
    assert typed["identifier"]["point_cloud"] == [[52.5, 13.4], [10, 10]]
    read_identifier(POINTS, typed["identifier"])
    assert listed["identifier"]["point_cloud"] == [[1, 2]]
    assert many["problems"] == {"point_cloud": "4 points are more than 3."}
    assert none["problems"] == {"point_cloud": "No coordinates yet."}
    assert wrong["problems"] == {"point_cloud": "These are not pairs of [latitude, longitude]."}


def test_announcement_needs_every_field(page: Tab) -> None:
    """Without a field there is no notification, whatever ``required`` says."""
    (empty,) = forms(page, "announcementOf", [{}])
    assert set(empty["problems"]) == set(DECLARED) - {"expver"}
    assert empty["problems"]["step"] == "A notification has every field."
    assert empty["identifier"] == {"expver": ""}


def test_names_that_objects_have_anyway_are_names_like_others(
    page: Tab, server: ServerProcess
) -> None:
    """Fields called constructor and __proto__ are not wrong of themselves and can be filled in."""
    page.page.goto(server.url)
    shown = page.page.evaluate(
        """
        async () => {
          const { fieldsOf } = await import("/static/console/form/fields.js");
          const { FilterForm } = await import("/static/console/form/filterform.js");
          const { PublishForm } = await import("/static/console/form/publishform.js");
          const names = ["constructor", "__proto__"];
          const type = { type: "ExpverHandler", required: false, default: "1" };
          const identifier = Object.fromEntries(names.map((name) => [name, type]));
          return [FilterForm, PublishForm].map((Form) => {
            const form = new Form({ changed() {}, draw() {}, show() {} });
            form.begin(fieldsOf({ identifier }));
            form.read();
            const problems = [...form.element.querySelectorAll(".problem")];
            for (const input of form.element.querySelectorAll("input")) input.value = "x";
            const given = Object.entries(form.read().identifier);
            return [problems.map((problem) => problem.textContent).join(""), given];
          });
        }
        """
    )
    assert shown == [["", [["constructor", "x"], ["__proto__", "x"]]]] * 2
