"""What model providers refuse in a tool, as checks: each gives the faults of one tool in OpenAI's function form.

Read in the providers' references and in reports of refused requests. One faulty tool makes a whole request fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

Node = tuple[str, Any]

GEMINI_KEYWORDS = frozenset(
    {"type", "format", "title", "description", "nullable", "enum", "items", "maxItems", "minItems", "properties"}
    | {"required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf"}
    | {"propertyOrdering", "default", "minimum", "maximum"}
)
STRICT_KEYWORDS = frozenset(
    {"type", "description", "enum", "anyOf", "$ref", "$defs", "properties", "required", "items", "additionalProperties"}
)
"""What OpenAI, Azure and fine-tuned models all take; the first alone takes more."""
TYPES = frozenset(["string", "number", "integer", "boolean", "array", "object"])


def nodes(schema: Any, place: str = "") -> Iterator[Node]:
    """Every schema inside a schema with its place, the whole first."""
    yield place, schema
    if not isinstance(schema, dict):
        return
    for group in ("properties", "$defs", "definitions", "patternProperties"):
        for name, part in schema.get(group, {}).items():
            yield from nodes(part, f"{place}/{group}/{name}")
    for group in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, part in enumerate(schema.get(group, [])):
            yield from nodes(part, f"{place}/{group}/{number}")
    for group in ("items", "additionalProperties"):
        if isinstance(schema.get(group), dict):
            yield from nodes(schema[group], f"{place}/{group}")


def parameters_of(tool: dict[str, Any]) -> dict[str, Any]:
    return tool["function"]["parameters"]


def openai_faults(tool: dict[str, Any]) -> list[str]:
    """OpenAI without strict mode: names, an object, a description of 1,024 characters (Azure and older models)."""
    function, faults = tool["function"], [] if tool["type"] == "function" else ["type"]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
        faults.append("name")
    if not 0 < len(function["description"]) <= 1_024:
        faults.append("description")
    parameters = function["parameters"]
    if parameters.get("type") != "object" or "properties" not in parameters:
        faults.append("root")
    faults += [f"{place}: array without items" for place, part in nodes(parameters) if _is_array_without_items(part)]
    return faults


def strict_faults(tool: dict[str, Any]) -> list[str]:
    """OpenAI's strict mode: closed objects, all required, few keywords, and limits of size."""
    parameters = parameters_of(tool)
    faults = [] if tool["function"].get("strict") is True else ["strict is not set"]
    if parameters.get("type") != "object" or "anyOf" in parameters:
        faults.append("root")
    for place, part in nodes(parameters):
        faults += [f"{place}: {fault}" for fault in _strict_node_faults(part)]
    return faults + _strict_size_faults(parameters)


def _strict_node_faults(part: Any) -> list[str]:
    if not isinstance(part, dict):
        return ["no object"]
    faults = [f"keyword {keyword}" for keyword in part if keyword not in STRICT_KEYWORDS]
    if not {"type", "anyOf", "$ref"} & set(part):
        faults.append("no type")
    kinds = part.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    faults += [f"type {kind}" for kind in kinds if kind not in TYPES | {"null"}]
    if "object" in kinds:
        if part.get("additionalProperties") is not False:
            faults.append("not closed")
        if sorted(part.get("required", [])) != sorted(part.get("properties", {})):
            faults.append("not all required")
    if "$ref" in part and len(part) > 1:
        faults.append("keywords beside $ref")
    if _is_array_without_items(part):
        faults.append("array without items")
    return faults + (["choices of another type"] if not _choices_fit(part, kinds) else [])


def _choices_fit(part: dict[str, Any], kinds: list[str]) -> bool:
    wanted = Draft202012Validator({"type": kinds}) if kinds else Draft202012Validator(True)
    return all(wanted.is_valid(choice) for choice in part.get("enum", []))


def _strict_size_faults(parameters: dict[str, Any]) -> list[str]:
    every = [part for _, part in nodes(parameters) if isinstance(part, dict)]
    names = [name for part in every for group in ("properties", "$defs") for name in part.get(group, {})]
    choices = [choice for part in every for choice in part.get("enum", [])]
    deepest = max(place.count("/properties/") for place, _ in nodes(parameters))
    faults = ["too many properties"] if len(names) > 5_000 else []
    faults += ["too deep"] if deepest > 10 else []
    faults += ["too many choices"] if len(choices) > 1_000 else []
    chars = sum(map(len, names)) + sum(len(choice) for choice in choices if isinstance(choice, str))
    return faults + (["too many characters"] if chars > 120_000 else [])


def anthropic_faults(tool: dict[str, Any]) -> list[str]:
    """Anthropic: an object without unions at the root, property names of few characters, valid JSON Schema."""
    function, parameters = tool["function"], parameters_of(tool)
    faults = [] if re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", function["name"]) else ["name"]
    if parameters.get("type") != "object" or {"anyOf", "oneOf", "allOf"} & set(parameters):
        faults.append("root")
    names = parameters.get("properties", {})
    return faults + [f"property {name}" for name in names if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)]


def gemini_faults(tool: dict[str, Any]) -> list[str]:
    """Gemini's `parameters`: a subset of OpenAPI's schema, one type in each, choices of text only."""
    function = tool["function"]
    faults = [] if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}", function["name"]) else ["name"]
    for place, part in nodes(function["parameters"]):
        faults += [f"{place}: {fault}" for fault in _gemini_node_faults(part)]
    names = function["parameters"].get("properties", {})
    return faults + [f"property {name}" for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name)]


def _gemini_node_faults(part: Any) -> list[str]:
    if not isinstance(part, dict):
        return ["no object"]
    faults = [f"keyword {keyword}" for keyword in part if keyword not in GEMINI_KEYWORDS]
    kind = part.get("type")
    if "anyOf" not in part and (not isinstance(kind, str) or kind not in TYPES):
        faults.append(f"type {kind!r}")
    if _is_array_without_items(part):
        faults.append("array without items")
    if "enum" in part and (kind != "string" or not all(isinstance(choice, str) for choice in part["enum"])):
        faults.append("choices that are not text")
    if kind != "object" and ({"properties", "required"} & set(part)):
        faults.append("properties of no object")
    unknown = [name for name in part.get("required", []) if name not in part.get("properties", {})]
    return faults + [f"required {name} is no property" for name in unknown]


def mcp_faults(tool: dict[str, Any]) -> list[str]:
    """MCP: room for a host's `mcp__server__` before the name, and an input schema that is one of an object."""
    faults = [] if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", tool["function"]["name"]) else ["name"]
    return faults + ([] if parameters_of(tool).get("type") == "object" else ["root"])


def json_schema_faults(tool: dict[str, Any]) -> list[str]:
    """What is no JSON Schema, and defaults that do not fit their own schema."""
    parameters = parameters_of(tool)
    faults = [error.message for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(parameters)]
    return faults + [
        f"{place}: default"
        for place, part in nodes(parameters)
        if isinstance(part, dict) and "default" in part and not Draft202012Validator(part).is_valid(part["default"])
    ]


def _is_array_without_items(part: Any) -> bool:
    kinds = part.get("type", "") if isinstance(part, dict) else ""
    return "array" in kinds and "items" not in part
