"""A function as a tool."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator

from toolstash.schema.dialect import anything
from toolstash.schema.function import FunctionSchema, Parameter


class Order(enum.Enum):
    UP = "up"
    DOWN = "down"


@dataclasses.dataclass
class Point:
    x: int


def search(
    workspace_id: str,
    query: str,
    order: Order = Order.UP,
    limit: int | None = 20,
    since: str | None = None,
    ratio: float = math.inf,
    place: Path = Path("/somewhere"),
    *args: Any,
    fields: Annotated[list[str] | None, "Fields to look in."] = None,
    **kwargs: Any,
) -> list[dict[str, Any]]:
    """Search the rows.

    Args:
        query: Words to look for.
    """
    return []


def test_the_openai_form() -> None:
    assert FunctionSchema.of(search, note="Ends with a note.").to_openai() == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Search the rows.\n\nEnds with a note.",
            "parameters": {
                "type": "object",
                "properties": {
                    "workspace_id": {"type": "string", "description": "Id of the workspace, as its notice gives it."},
                    "query": {"type": "string", "description": "Words to look for."},
                    "order": {"type": "string", "enum": ["up", "down"], "default": "up"},
                    "limit": {"type": "integer", "description": "Most entries to return.", "default": 20},
                    "since": {"type": "string"},
                    "ratio": {"type": "number"},
                    "place": {"type": "string"},
                    "fields": {"type": "array", "items": {"type": "string"}, "description": "Fields to look in."},
                },
                "required": ["workspace_id", "query"],
            },
        },
    }


def test_the_parameters_keep_what_the_call_needs() -> None:
    schema = FunctionSchema.of(search)
    order = next(parameter for parameter in schema.parameters if parameter.name == "order")
    assert (order.required, order.default, order.annotation, order.type_name) == (False, Order.UP, Order, "Order")
    assert order.convert("DOWN") is Order.DOWN
    assert [p.type_name for p in schema.parameters if p.name in ("limit", "fields")] == [
        "int | None",
        "list[str] | None",
    ]
    assert schema.summary == "Search the rows."


def test_enums_and_leave_out() -> None:
    schema = FunctionSchema.of(search)
    bound = schema.to_openai(enums={"workspace_id": ["w1"], "absent": ["x"]}, leave_out={"query"})
    parameters = bound["function"]["parameters"]
    assert parameters["properties"]["workspace_id"]["enum"] == ["w1"]
    assert "query" not in parameters["properties"]
    assert parameters["required"] == ["workspace_id"]
    assert "enum" not in schema.to_openai()["function"]["parameters"]["properties"]["workspace_id"]


def test_a_changed_export_does_not_change_the_next_one() -> None:
    schema = FunctionSchema.of(search)
    before = json.dumps(schema.to_openai())
    schema.to_openai()["function"]["parameters"]["properties"]["order"]["enum"].append("broken")
    assert json.dumps(schema.to_openai()) == before


def test_hidden_parameters_are_never_seen() -> None:
    schema = FunctionSchema.of(search, hidden={"order", "no_such_parameter"}, name="find")
    assert schema.name == "find"
    assert "order" not in [parameter.name for parameter in schema.parameters]


def test_schema_extra_is_laid_over() -> None:
    schema = FunctionSchema.of(search, schema_extra={"limit": {"maximum": 50, "description": "At most 50."}})
    limit = next(parameter for parameter in schema.parameters if parameter.name == "limit")
    assert limit.schema == {"type": "integer", "description": "At most 50.", "default": 20, "maximum": 50}
    assert limit.description == "At most 50."


@pytest.mark.parametrize("name", ["limt", "args"])
def test_schema_extra_for_an_unknown_parameter_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match=f"names '{name}', but its parameters are: workspace_id, query"):
        FunctionSchema.of(search, schema_extra={name: {}})


def test_hints_as_text_are_found_one_by_one_inside_a_function() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    kept = Point

    def function(count: int, point: kept, local: Local, many: list[Local], when: Literal["now"]):
        return kept

    parameters = {p.name: p.schema for p in FunctionSchema.of(function).parameters}
    assert parameters["count"] == {"type": "integer"}
    assert parameters["point"]["properties"] == {"x": {"type": "integer"}}
    assert parameters["local"] == parameters["many"] == anything()
    assert parameters["when"] == {"type": "string", "enum": ["now"]}


def test_methods_partials_and_decorated_functions() -> None:
    class Service:
        def method(self, count: int):
            """Count."""

        def __call__(self, count: int):
            """Call."""

    @functools.wraps(search)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return search(*args, **kwargs)

    for function, name in (
        (Service().method, "method"),
        (Service(), "Service"),
        (functools.partial(Service().method), "method"),
    ):
        schema = FunctionSchema.of(function)
        assert (schema.name, schema.parameters[0].schema) == (name, {"type": "integer"})
    assert FunctionSchema.of(decorated) == FunctionSchema.of(search)


def test_async_functions_and_functions_without_anything() -> None:
    async def count_rows(whatever): ...

    schema = FunctionSchema.of(count_rows)
    assert schema.description == "Count rows."
    assert [(p.name, p.schema, p.required) for p in schema.parameters] == [("whatever", anything(), True)]


def test_values_are_frozen() -> None:
    schema = FunctionSchema.of(search)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.name = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.parameters[0].name = "other"  # type: ignore[misc]


def test_a_parameter_made_by_hand_can_convert() -> None:
    assert Parameter("page", int, {"type": "integer"}).convert("2") == 2


def test_exports_are_valid_json_schemas() -> None:
    exported = FunctionSchema.of(search).to_openai()["function"]["parameters"]
    Draft202012Validator.check_schema(exported)
    Draft202012Validator(exported).validate({"workspace_id": "w", "query": "q", "order": "down"})


PROGRAM = """
import json
from toolstash.schema.function import FunctionSchema
from tests_schema_sample import search, Outer, Step
from toolstash.schema.hints import json_schema_of
print(json.dumps([FunctionSchema.of(search, note="n").to_openai(), json_schema_of(Outer), json_schema_of(Step)]))
"""

SAMPLE = """
from __future__ import annotations
from typing import Any, Literal, TypedDict
import enum, pydantic
class Inner(pydantic.BaseModel):
    kind: Literal["b", "a"]
class Outer(pydantic.BaseModel):
    one: Inner
    many: set[Inner] | None = None
class Step(TypedDict, total=False):
    zeta: int
    alpha: str | int | float
class Order(enum.Enum):
    UP = "up"
    DOWN = "down"
def search(workspace_id: str, names: set[Literal["x", "y", "z"]], order: Order = Order.UP, more: Any = None):
    \"\"\"Search.\"\"\"
"""


def test_two_processes_export_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "tests_schema_sample.py").write_text(SAMPLE)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert outputs[0] == outputs[1]
    assert b"workspace_id" in outputs[0]


def test_pydantics_field_is_refused_as_a_default() -> None:
    pydantic = pytest.importorskip("pydantic")

    def load(count: int = pydantic.Field(3, ge=1)) -> None: ...

    with pytest.raises(TypeError, match="'count' is pydantic's Field"):
        FunctionSchema.of(load)
