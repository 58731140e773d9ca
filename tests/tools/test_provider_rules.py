"""Every schema of a Ctx that has everything keeps the rules of every provider (F48, F49, F50)."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from tests.house.sources import ROOT
from tests.tools import provider_rules as rules
from tests.tools.everything import SCHEMAS, everything
from toolstash import Ctx, Tool

HAVE_NO_STRICT_FORM = {"custom_either", "of_any_name", "of_two_kinds"}
EVERY_PROVIDER = (
    rules.openai_faults,
    rules.anthropic_faults,
    rules.gemini_faults,
    rules.mcp_faults,
    rules.json_schema_faults,
)


def faults(tools: list[dict[str, Any]], *checks: Callable[[dict[str, Any]], list[str]]) -> dict[str, list[str]]:
    found = {tool["function"]["name"]: [fault for check in checks for fault in check(tool)] for tool in tools}
    return {name: said for name, said in found.items() if said}


@pytest.mark.parametrize("workspace_id", [None, "papers_1"])
@pytest.mark.parametrize("check", EVERY_PROVIDER)
def test_every_schema_keeps_the_rules_of(check: Any, workspace_id: str | None) -> None:
    tools = [tool for tool in everything().get_tools(workspace_id) if tool["function"]["name"] not in SCHEMAS]
    assert len(tools) > 30
    assert faults(tools, check) == {}


def test_the_schema_of_a_tool_made_by_hand_is_its_author_s() -> None:
    tools = {tool["function"]["name"]: tool for tool in everything().get_tools()}
    shown = {name: rules.parameters_of(tools[name]) for name in SCHEMAS}
    assert shown == {name: {"properties": {}} | schema for name, schema in SCHEMAS.items()}
    own = [tools[name] for name in SCHEMAS]
    assert set(faults(own, rules.gemini_faults)) == set(SCHEMAS)
    assert set(faults(own, rules.anthropic_faults)) == {"of_two_kinds"}
    assert faults(own, rules.json_schema_faults, rules.mcp_faults) == {}


def test_every_strict_schema_keeps_the_rules_of_strict_mode() -> None:
    tools = everything().get_tools(strict=True)
    strict = [tool for tool in tools if tool["function"]["strict"]]
    assert faults(strict, rules.strict_faults, rules.openai_faults, rules.json_schema_faults) == {}
    assert {tool["function"]["name"] for tool in tools} - {tool["function"]["name"] for tool in strict} == (
        HAVE_NO_STRICT_FORM
    )


def test_somebody_else_s_rules_of_strict_mode_find_nothing_to_change() -> None:
    for tool in everything().get_tools(strict=True):
        if tool["function"]["strict"]:
            walker = OpenAIJsonSchemaTransformer(copy.deepcopy(rules.parameters_of(tool)), strict=None)
            assert walker.walk() == rules.parameters_of(tool)
            assert walker.is_strict_compatible


def test_names_have_room_for_a_prefix_of_a_host() -> None:
    names = [tool["function"]["name"] for tool in everything().get_tools()]
    assert len(names) == len(set(names))
    assert any(name.startswith("t_2024_settings_") and name.endswith("_get_keys") for name in names)
    assert all(len(f"mcp__a_server_name__{name}") <= 64 for name in names)


def test_five_processes_tell_the_same_bytes() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-m", "tests.tools.everything"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "42", "4242", "random")
    }
    assert len(told) == 1
    assert b"load_papers" in told.pop()


@pytest.mark.parametrize(
    ("check", "parameters", "fault"),
    [
        (rules.gemini_faults, {"a": {"type": ["string", "null"]}}, "type"),
        (rules.gemini_faults, {"a": {"type": "array"}}, "array without items"),
        (rules.gemini_faults, {"a": {"type": "array", "items": {}}}, "type None"),
        (rules.gemini_faults, {"a": {"const": 1}}, "keyword const"),
        (rules.gemini_faults, {"a": {"$ref": "#/$defs/x"}}, "keyword $ref"),
        (rules.gemini_faults, {"a": True}, "no object"),
        (rules.gemini_faults, {"a": {"type": "integer", "enum": [1]}}, "choices"),
        (rules.gemini_faults, {"a": {"type": "object", "additionalProperties": False}}, "additionalProperties"),
        (rules.anthropic_faults, {"größe": {"type": "string"}}, "property größe"),
        (rules.openai_faults, {"a": {"type": "array"}}, "array without items"),
        (rules.json_schema_faults, {"a": {"type": "string", "default": 1}}, "default"),
        (rules.strict_faults, {"a": {"type": "object"}}, "not closed"),
        (rules.strict_faults, {"a": {"type": "string", "default": ""}}, "keyword default"),
        (rules.strict_faults, {"a": {}}, "no type"),
    ],
)
def test_a_schema_that_would_be_refused_is_found(check: Any, parameters: dict[str, Any], fault: str) -> None:
    schema = {"type": "object", "properties": parameters, "required": []}
    tool = {"type": "function", "function": {"name": "t", "description": "T.", "parameters": schema}}
    assert any(fault in said for said in check(tool))


def test_names_that_providers_refuse_are_refused_early() -> None:
    ctx = Ctx("memory:")
    with pytest.raises(ValueError, match="the first a letter or _"):
        Tool("2x", "A tool.", {"type": "object"}, execute=lambda args: args)

    def load(größe: int) -> list[int]:
        return []

    with pytest.raises(ValueError, match="has a parameter 'größe'; model APIs take names"):
        ctx.producer(workspace_type="a")(load)
