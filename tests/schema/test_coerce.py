"""Raw arguments become checked ones, or a refusal that a model can act on. Never a guess, never a crash."""

from __future__ import annotations

import dataclasses
import enum
import json
import time as clock
from collections import deque
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union
from uuid import UUID

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstash.errors import InvalidArgumentError
from toolstash.schema.coerce import coerce_arguments, parse_arguments
from toolstash.schema.function import FunctionSchema, Parameter
from toolstash.schema.hints import json_schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Odd(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Node:
    name: str
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Picky:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("secret detail")


class Step(TypedDict):
    limit: int
    where: NotRequired[dict[str, Any]]


class Person(pydantic.BaseModel):
    name: str
    age: int
    mail: str | None = None


class Form(pydantic.BaseModel):
    """What strict mode makes a model send: null for what is left out, JSON text for what has no fixed fields."""

    level: Literal[1, 2] = 2
    table: dict[str, int] = {}
    people: list[Person] = []
    size: int = 7
    note: str | dict[str, int] = ""


class Rows(pydantic.RootModel[list[int]]):
    pass


class Unheard:
    pass


def parameter(annotation: Any, **rest: Any) -> Parameter:
    return Parameter("value", annotation, json_schema_of(annotation), **rest)


def coerced(annotation: Any, value: Any) -> Any:
    return coerce_arguments([parameter(annotation)], {"value": value})["value"]


def refusal(annotation: Any, value: Any) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as caught:
        coerced(annotation, value)
    return caught.value


def result_or_refusal(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except InvalidArgumentError as error:
        return error


HUGE = "9" * 5_000

ACCEPTED = [
    (int, 2, 2),
    (int, "2", 2),
    (int, " 2 ", 2),
    (int, 2.0, 2),
    (int, "2.0", 2),
    (int, "-1", -1),
    (int, "+7", 7),
    (int, 1e3, 1000),
    (int, "1e3", 1000),
    (int, "12345678901234567890.0", 12345678901234567890),
    (int, 10**50, 10**50),
    (int, Size.LARGE, 2),
    (float, 2, 2.0),
    (float, "2.5", 2.5),
    (float, " .5 ", 0.5),
    (float, "1e3", 1000.0),
    (bool, True, True),
    (bool, "true", True),
    (bool, " FALSE ", False),
    (str, "a", "a"),
    (str, "", ""),
    (str, 5, "5"),
    (str, 2.5, "2.5"),
    (Any, None, None),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, True, True),
    (int | None, None, None),
    (int | None, "3", 3),
    (Optional[list[int]], ["1"], [1]),  # noqa: UP045
    (None, None, None),
    (list, [1, "a"], [1, "a"]),
    (list, "[1, 2]", [1, 2]),
    (list, json.dumps("[1, 2]"), [1, 2]),
    (list, {"a": 1}, [{"a": 1}]),
    (list[int], ["1", 2.0], [1, 2]),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], 5, [5]),
    (list[int], "5", [5]),
    (list[str], "a,b", ["a", "b"]),
    (list[str], " a , b, ", ["a", "b"]),
    (list[str], "a", ["a"]),
    (list[str], '"a,b"', ["a", "b"]),
    (list[str], "5", ["5"]),
    (list[str], '["a", "b,c"]', ["a", "b,c"]),
    (list[str], ["a", 1], ["a", "1"]),
    (list[str] | None, "a,b", ["a", "b"]),
    (str | list[str] | None, "a,b", "a,b"),
    (str | list[str] | None, ["a"], ["a"]),
    (list[Literal["a", "b"]], "A,b", ["a", "b"]),
    (list[dict[str, Any]], ['{"limit": 5}', {"sort": "x"}], [{"limit": 5}, {"sort": "x"}]),
    (list[dict[str, Any]], '[{"limit":5}]', [{"limit": 5}]),
    (list[dict[str, Any]], '{"limit":5}', [{"limit": 5}]),
    (list[dict[str, Any]], {"limit": 5}, [{"limit": 5}]),
    (Sequence[int], (1, 2), [1, 2]),
    (deque[int], ["1"], deque([1])),
    (set[int], ["1", 1, 2], {1, 2}),
    (frozenset[str], "a,b", frozenset({"a", "b"})),
    (tuple[int, ...], ["1"], (1,)),
    (tuple, [1], (1,)),
    (tuple[int, str], ["1", 2], (1, "2")),
    (tuple[int, str], '[1, "a"]', (1, "a")),
    (dict, {"a": 1}, {"a": 1}),
    (dict, '{"a": 1}', {"a": 1}),
    (dict, json.dumps('{"a": 1}'), {"a": 1}),
    (dict[str, int], {"a": "1"}, {"a": 1}),
    (dict[int, bool], {"1": "true"}, {1: True}),
    (dict | list, "[1]", [1]),
    (Literal["asc", "desc"], "asc", "asc"),
    (Literal["asc", "desc"], " DESC ", "desc"),
    (Literal[1, 2], "2", 2),
    (Literal[1, 2], 2.0, 2),
    (Literal["1", 1], 1, 1),
    (Literal["1", 1], "1", "1"),
    (Literal[True, "auto"], True, True),
    (Literal["a", None], None, None),
    (Colour, "red", Colour.RED),
    (Colour, "BLUE", Colour.BLUE),
    (Colour, Colour.RED, Colour.RED),
    (Size, 1, Size.SMALL),
    (Size, "2", Size.LARGE),
    (Odd, "pair", Odd.PAIR),
    (list[Colour], ["Red"], [Colour.RED]),
    (int | str, "2", "2"),
    (int | str, 2, 2),
    (int | float, 2.5, 2.5),
    (float | int, 2, 2),
    (int | bool, True, True),
    (int | bool, "true", True),
    (float | str, 2, 2.0),
    (Union[int, Any], "x", "x"),  # noqa: UP007
    (date | int, "2024-05-31", date(2024, 5, 31)),
    (Point, {"x": "1"}, Point(1)),
    (Point, '{"x": 1, "y": "2"}', Point(1, 2.0)),
    (Point, {"x": 1, "y": None}, Point(1)),
    (list[Point], {"x": 1}, [Point(1)]),
    (Node, {"name": "a", "children": [{"name": 1}]}, Node("a", [Node("1")])),
    (Point | Node, {"name": "a"}, Node("a")),
    (Step, {"limit": "5", "extra": 1}, {"limit": 5, "extra": 1}),
    (Step, {"limit": 5, "where": None}, {"limit": 5}),
    (list[Step], ['{"limit": "5"}'], [{"limit": 5}]),
    (Person, {"name": "Ada", "age": "36"}, Person(name="Ada", age=36)),
    (Person, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
    (Form, {"level": None, "table": None, "people": None, "size": None, "note": None}, Form()),
    (Form, {"level": "1", "table": '{"a": 1}', "note": '{"a": 1}'}, Form(level=1, table={"a": 1}, note='{"a": 1}')),
    (
        Form,
        {"people": ['{"name": "Ada", "age": 36, "mail": null}']},
        Form(people=[Person(name="Ada", age=36)]),
    ),
    (Rows, [1, 2], Rows([1, 2])),
    (Rows, "[1, 2]", Rows([1, 2])),
    (datetime, "2024-05-31T12:00:00Z", datetime(2024, 5, 31, 12, tzinfo=timezone.utc)),  # noqa: UP017
    (date, " 2024-05-31 ", date(2024, 5, 31)),
    (time, "12:30", time(12, 30)),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (Decimal, "12.50", Decimal("12.50")),
    (Decimal, 0.1, Decimal("0.1")),
    (Path, "a/b", Path("a/b")),
    (Unheard, "text", "text"),
    (Callable, "text", "text"),
    (Annotated[int, "The page."], "2", 2),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), ACCEPTED)
def test_what_is_unambiguous_is_accepted(annotation: Any, value: Any, expected: Any) -> None:
    result = coerced(annotation, value)
    assert result == expected
    assert type(result) is type(expected)


REFUSED = [
    *((int, value) for value in ("12px", "", " ", True, 1.5, "1.5", float("inf"), float("nan"), None, [], {}, HUGE)),
    *(
        (int, value)
        for value in ("1_000", "1,000", "٢", "0x10", "1e400", "two", 2.0**60, 10**400, "1.0000000000000000001")
    ),
    *((float, value) for value in ("", "12px", True, None, "nan", "inf", "1e999", float("inf"), [], 10**400, HUGE)),
    *((bool, value) for value in (0, 1, "1", "yes", "", None, [])),
    *((str, value) for value in (None, True, [], {}, float("nan"), 10**5_000)),
    *((list, value) for value in (None, "", "abc", 5, True, "null", "[1", '"a"')),
    *((list[str], value) for value in (None, "", " , ", '["a"', '{"a"', "null", [None], [["a"]], True)),
    *((list[int], value) for value in ("1,2", ["x"], "x", True, [True], 1.5)),
    *((dict, value) for value in (None, "", "abc", [], "[]", 5, '{"a":')),
    (dict[str, int], {"a": "x"}),
    (dict[int, int], {"a": 1}),
    (set[Any], [[1]]),
    (tuple[int, str], [1]),
    (tuple[int, str], "5"),
    (Literal["asc", "desc"], "up"),
    (Literal["asc", "desc"], ["asc"]),
    (Literal["asc", "desc"], None),
    (Literal["a", "A"], " a "),
    (Literal[1, 2], True),
    (Literal[1, 2], 10**5_000),
    (Colour, "green"),
    (Colour, "RED" * 100),
    (int | bool, "x"),
    (int | list[int], [1, "x"]),
    (Point, {"y": 1}),
    (Point, {"x": 1, "z": 2}),
    (Point, {"x": "a"}),
    (Point, "text"),
    (Node, {"name": "a", "children": [{"nam": 1}]}),
    (Picky, {"x": -1}),
    (Step, {"limit": "five"}),
    (Step, {}),
    (Person, {"name": "Ada"}),
    (Person, "Ada"),
    (Rows, ["x"]),
    (datetime, "yesterday"),
    (datetime, 1717156800),
    (date, "31.05.2024"),
    (date, ""),
    (time, "noon"),
    (UUID, "1"),
    (Decimal, "1_0"),
    (Decimal, "NaN"),
    (Decimal, True),
    (Decimal, 10**400),
    (Path, ""),
    (Unheard, 5),
    (None, 1),
]


@pytest.mark.parametrize(("annotation", "value"), REFUSED, ids=lambda value: repr(type(value)))
def test_what_is_not_is_refused_in_few_words(annotation: Any, value: Any) -> None:
    error = refusal(annotation, value)
    assert error.message.startswith("'value")
    assert len(error.message) < 400
    assert error.suggested_action
    assert error.details["argument"] == "value"
    assert set(error.details["expected_parameters"]) == {"value"}
    assert error.details["required"] == ["value"]
    json.dumps(error.to_llm_dict())


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "12px", """'value' must be a whole number, such as 2, not "12px"."""),
        (int, None, "'value' must be a whole number, such as 2, not null."),
        (bool, 1, "'value' must be true or false, not 1."),
        (str, ["a"], "'value' must be text, not a list."),
        (Literal["a", 1], "b", """'value' must be one of "a", 1, not "b"."""),
        (Colour, {}, """'value' must be one of "red", "blue", not an object."""),
        (list[dict[str, int]], [{"a": "x"}], """'value.0.a' must be a whole number, such as 2, not "x"."""),
        (int | list[int], [1, "x"], """'value.1' must be a whole number, such as 2, not "x"."""),
        (int | bool, "x", """'value' must be a whole number or true or false, not "x"."""),
        (Point, {"x": 1, "yy": 2}, "'value' has an unknown field 'yy' (did you mean 'y'?)."),
        (Point, {}, "'value' lacks the field 'x'."),
        (Picky, {"x": -1}, "'value' was refused (ValueError)."),
        (tuple[int, int], [1], "'value' must be a list of 2 values, not 1."),
        (Person, {"age": "x"}, "'value' was refused: name: Field required; age: Input should be a valid integer, "),
    ],
)
def test_messages_say_where_and_what(annotation: Any, value: Any, message: str) -> None:
    assert refusal(annotation, value).message.startswith(message)


def test_a_long_list_of_choices_is_cut() -> None:
    choices = Literal[tuple(f"choice_{number}" for number in range(500))]  # type: ignore[valid-type]
    error = refusal(choices, "x")
    assert len(error.message) < 300
    assert "more)" in error.message
    assert len(error.details["expected_parameters"]["value"]) <= 120


def test_half_a_surrogate_pair_does_not_break_the_message() -> None:
    error = refusal(int, "\ud800")
    assert error.message.encode() == b"""'value' must be a whole number, such as 2, not "?"."""


def tool(workspace_id: str, page: int = 0, size: int = 10, since: date | None = None, value: Any = 1) -> None: ...


PARAMETERS = FunctionSchema.of(tool).parameters


def test_absent_and_null_optional_arguments_are_left_out() -> None:
    raw = {"workspace_id": "w", "page": "2", "size": None, "since": None, "value": None}
    assert coerce_arguments(PARAMETERS, raw) == {"workspace_id": "w", "page": 2}


def test_an_unknown_argument_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        coerce_arguments(PARAMETERS, {"workspace": "w", "page": "x"})
    assert caught.value.to_llm_dict() == {
        "error": "Unknown argument: 'workspace' (did you mean 'workspace_id'?).",
        "argument": "workspace",
        "expected_parameters": {
            "workspace_id": "str",
            "page": "int",
            "size": "int",
            "since": "date | None",
            "value": "any",
        },
        "required": ["workspace_id"],
        "suggested_action": "Use only these arguments: workspace_id, page, size, since, value.",
    }


def test_many_unknown_arguments_are_told_in_few_words() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        coerce_arguments(PARAMETERS, {f"{number}{'x' * 1_000}": 1 for number in range(1_000)})
    assert len(caught.value.message) < 300
    assert "(+997 more)" in caught.value.message
    assert "argument" not in caught.value.to_llm_dict()


def test_arguments_for_a_tool_without_any() -> None:
    assert coerce_arguments([], {}) == {}
    with pytest.raises(InvalidArgumentError, match="Unknown argument: 'a'") as caught:
        coerce_arguments([], {"a": 1})
    assert caught.value.suggested_action == "Call the tool without arguments."


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Missing argument: 'workspace_id' \(str\)") as caught:
        coerce_arguments(PARAMETERS, {"page": 1})
    assert caught.value.details["argument"] == "workspace_id"


@pytest.mark.parametrize("raw", [None, "", "  \n", "{}", {}, '"{}"'])
def test_no_arguments(raw: Any) -> None:
    assert parse_arguments(raw) == {}


@pytest.mark.parametrize(
    "raw",
    [{"workspace_id": "w"}, '{"workspace_id": "w"}', ' {"workspace_id": "w"} ', '"{\\"workspace_id\\":\\"w\\"}"'],
)
def test_arguments_in_any_wrapping(raw: Any) -> None:
    assert parse_arguments(raw) == {"workspace_id": "w"}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


LOOP: dict[str, Any] = {}
LOOP["itself"] = [LOOP, LOOP]


@pytest.mark.parametrize(
    "raw",
    [
        "null",
        "[]",
        "5",
        "true",
        '"text"',
        '""',
        '"null"',
        "NaN",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1',
        '{"a": 1} tail',
        "{'a': 1}",
        HUGE,
        f'{{"a": {HUGE}}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        json.dumps(nested(300)),
        json.dumps(json.dumps(json.dumps({}))),
        "\ud800",
        "\x00",
        5,
        True,
        [],
        b"{}",
        object(),
        {1: 2},
        {"a": nested(100_000)},
        LOOP,
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_everything_else_is_an_error_and_never_empty(raw: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_arguments(raw)
    assert len(caught.value.message) < 300
    assert caught.value.suggested_action


def test_reasonable_nesting_passes() -> None:
    value = {"a": nested(150)}
    assert parse_arguments(json.dumps(value)) == value
    assert parse_arguments(value) == value


def test_a_record_deeper_than_the_stack_is_refused() -> None:
    value: dict[str, Any] = {"name": "leaf"}
    for _ in range(5_000):
        value = {"name": "node", "children": [value]}
    assert "too deeply" in refusal(Node, value).message


@pytest.mark.parametrize(
    "annotation", [str, int, float, bool, list, list[int], dict, Colour, Point, Person, date, UUID]
)
@pytest.mark.parametrize("value", ["x" * 10_000_000, "9" * 10_000_000, "[" * 10_000_000, " " * 10_000_000])
def test_ten_megabytes_are_neither_echoed_nor_slow(annotation: Any, value: str) -> None:
    started = clock.monotonic()
    outcome = result_or_refusal(lambda: coerced(annotation, value))
    assert clock.monotonic() - started < 1
    is_refusal = isinstance(outcome, InvalidArgumentError)
    assert len(json.dumps(outcome.to_llm_dict())) < 1_000 if is_refusal else annotation is str


def test_ten_megabytes_as_the_whole_arguments() -> None:
    started = clock.monotonic()
    for raw in ("x" * 10_000_000, "[" * 10_000_000, '{"' + "x" * 10_000_000):
        with pytest.raises(InvalidArgumentError) as caught:
            parse_arguments(raw)
        assert len(caught.value.message) < 200
    with pytest.raises(InvalidArgumentError):
        coerce_arguments(PARAMETERS, parse_arguments('{"' + "x" * 10_000_000 + '": 1}'))
    assert clock.monotonic() - started < 5


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["[1]", "a,b", "{}", "1e3"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)

ANNOTATIONS = list({str(annotation): annotation for annotation, *_ in (*ACCEPTED, *REFUSED)}.values())


@given(st.one_of(JSON, st.text(), st.binary(), JSON.map(lambda value: json.dumps(value))))
def test_parsing_anything_gives_a_dict_or_a_refusal(raw: Any) -> None:
    assert isinstance(result_or_refusal(lambda: parse_arguments(raw)), (dict, InvalidArgumentError))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ANNOTATIONS), JSON)
def test_coercing_anything_gives_a_value_or_a_refusal(annotation: Any, value: Any) -> None:
    result = result_or_refusal(lambda: coerced(annotation, value))
    if isinstance(result, InvalidArgumentError):
        assert 0 < len(result.message.encode()) < 800
    else:
        again = coerced(annotation, result)
        assert again == result or repr(again) == repr(result)


@given(st.dictionaries(st.sampled_from(["workspace_id", "page", "size", "pagee"]), JSON))
def test_coercing_any_object_returns_only_checked_arguments(raw: dict[str, Any]) -> None:
    checked = result_or_refusal(lambda: coerce_arguments(PARAMETERS, raw))
    if isinstance(checked, InvalidArgumentError):
        assert set(checked.details) >= {"expected_parameters", "required"}
        return
    assert isinstance(checked["workspace_id"], str)
    assert all(type(checked[name]) is int for name in ("page", "size") if name in checked)
    assert None not in checked.values()


@given(st.integers(-(10**30), 10**30))
def test_every_integer_survives_as_text(number: int) -> None:
    assert coerced(int, number) == coerced(int, str(number)) == coerced(int, f" {number}.0 ") == number


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_what_the_schema_offers_is_accepted(annotation: Any) -> None:
    schema = json_schema_of(annotation)
    for choice in schema.get("enum", []):
        assert coerced(annotation, choice) is not None
