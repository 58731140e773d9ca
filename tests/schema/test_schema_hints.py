"""Annotations become JSON Schema in a dialect that every model API takes."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import pydantic
import pytest
from jsonschema import Draft202012Validator

from toolstash.schema.dialect import anything
from toolstash.schema.hints import json_schema_of

ANYTHING = anything()
T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    PAIR = (1, 2)
    OTHER = (3, 4)


@dataclasses.dataclass
class Point:
    x: int
    y: Annotated[float, "How high."] = 0.0
    hidden: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Node:
    name: str
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


class Step(TypedDict, total=False):
    filter: Required[dict[str, Any]]
    limit: int


class Note(TypedDict):
    text: str
    author: NotRequired[str]


class Inner(pydantic.BaseModel):
    """What is inside."""

    kind: Literal["a"]
    at: datetime | None = None


class Outer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    inner: Inner
    others: list[Inner] = []
    pair: tuple[int, str] = (1, "a")
    table: dict[str, int] = {}
    title: int | str = 1


class Tree(pydantic.BaseModel):
    branches: list[Tree] = []


class Unheard:
    pass


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, ANYTHING),
        (object, ANYTHING),
        ("NoSuchName", ANYTHING),
        (Unheard, {"type": "string"}),
        (bytes, {"type": "string"}),
        (UserId, {"type": "integer"}),
        (T, ANYTHING),
        (list, {"type": "array", "items": ANYTHING}),
        (typing.List, {"type": "array", "items": ANYTHING}),  # noqa: UP006
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (frozenset, {"type": "array", "items": ANYTHING}),
        (tuple, {"type": "array", "items": ANYTHING}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
        (
            tuple[int, str],
            {
                "type": "array",
                "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object"}),
        (typing.Dict[str, int], {"type": "object"}),  # noqa: UP006
        (Mapping[str, Any], {"type": "object"}),
        (Optional[int], {"type": "integer"}),  # noqa: UP045
        (int | None, {"type": "integer"}),
        (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Union[int, Any], ANYTHING),  # noqa: UP007
        (int | UserId, {"type": "integer"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "string", "enum": ["1", "2"]}),
        (Literal[True], {"type": "string", "enum": ["true"]}),
        (Literal[False, True], {"type": "boolean"}),
        (Literal["a", 1], {"type": "string", "enum": ["a", "1"]}),
        (Literal["a", None], {"type": "string", "enum": ["a"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "string", "enum": ["1", "2"]}),
        (Odd, {"type": "string", "enum": ["PAIR", "OTHER"]}),
        (Annotated[int, "The page."], {"type": "integer", "description": "The page."}),
        (Annotated[int, pydantic.Field(description="The page.")], {"type": "integer", "description": "The page."}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (time, {"type": "string", "format": "time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "number"}),
        (Path, {"type": "string"}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number", "description": "How high."}},
                "required": ["x"],
            },
        ),
        (Box[int], {"type": "object", "properties": {"content": ANYTHING}, "required": ["content"]}),
        (
            Step,
            {
                "type": "object",
                "properties": {"filter": {"type": "object"}, "limit": {"type": "integer"}},
                "required": ["filter"],
            },
        ),
        (
            Note,
            {
                "type": "object",
                "properties": {"text": {"type": "string"}, "author": {"type": "string"}},
                "required": ["text"],
            },
        ),
    ],
)
def test_the_schema_of_an_annotation(annotation: Any, schema: dict[str, Any]) -> None:
    assert json_schema_of(annotation) == schema


def test_a_record_inside_itself_stops_at_the_second_level() -> None:
    schema = json_schema_of(Node)
    assert schema["properties"]["children"] == {"type": "array", "items": {"type": "object"}}
    assert json_schema_of(Tree)["properties"] == {
        "branches": {"type": "array", "items": {"type": "object"}, "default": []}
    }


def test_a_pydantic_model_is_inlined_and_narrowed() -> None:
    schema = json_schema_of(Outer)
    inner = {
        "type": "object",
        "description": "What is inside.",
        "properties": {"kind": {"type": "string", "enum": ["a"]}, "at": {"type": "string", "format": "date-time"}},
        "required": ["kind"],
    }
    assert schema["properties"]["inner"] == inner
    assert schema["properties"]["others"]["items"] == inner
    assert schema["properties"]["pair"]["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert schema["properties"]["title"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert schema["required"] == ["inner"]


def walk(schema: dict[str, Any]) -> None:
    """F49: what Gemini and others refuse."""
    assert isinstance(schema, dict)
    assert not {"$ref", "$defs", "const", "oneOf", "allOf", "additionalProperties", "prefixItems"} & set(schema)
    assert not {"uniqueItems", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"} & set(schema)
    assert isinstance(schema.get("type", ""), str)
    assert "type" in schema or "anyOf" in schema
    assert all(isinstance(choice, str) for choice in schema.get("enum", []))
    assert schema.get("type") != "null"
    if schema.get("type") == "array":
        walk(schema["items"])
    for member in schema.get("anyOf", []):
        walk(member)
    for part in schema.get("properties", {}).values():
        walk(part)


@pytest.mark.parametrize(
    "annotation",
    [Outer, Tree, Node, Step, list[Outer] | None, tuple[Inner, int], dict[str, list[int]], Odd, list, set[Point]],
)
def test_every_schema_stays_in_the_dialect(annotation: Any) -> None:
    schema = json_schema_of(annotation)
    walk(schema)
    Draft202012Validator.check_schema(schema)


def test_type_lists_written_by_hand_in_a_model_are_split() -> None:
    class Model(pydantic.BaseModel):
        one: Annotated[Any, pydantic.WithJsonSchema({"type": ["string", "null"]})]
        two: Annotated[Any, pydantic.WithJsonSchema({"type": ["array", "integer"]})]
        all_of: Annotated[Any, pydantic.WithJsonSchema({"allOf": [{"type": "integer"}, {"minimum": 1}]})]
        ends: Annotated[int, pydantic.Field(gt=0, lt=9, multiple_of=2)]
        choice: Literal[2, 3] = 2
        flag: Literal[True, False] = True
        nothing: None = None
        anything: Any = None

    properties = json_schema_of(Model)["properties"]
    assert properties["one"] == {"type": "string"}
    assert properties["two"] == {"anyOf": [{"type": "array", "items": ANYTHING}, {"type": "integer"}]}
    assert properties["all_of"] == {"type": "integer", "minimum": 1}
    assert properties["ends"] == {"type": "integer", "minimum": 0, "maximum": 9}
    assert properties["choice"] == {"type": "string", "enum": ["2", "3"], "default": "2"}
    assert properties["flag"] == {"type": "boolean", "default": True}
    assert properties["nothing"] == properties["anything"] == ANYTHING
    walk(json_schema_of(Model))


def test_a_changed_schema_does_not_change_the_next_one() -> None:
    json_schema_of(str)["type"] = "broken"
    assert json_schema_of(str) == {"type": "string"}
