"""Which tools a model is told of, and in a system prompt how they go together."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.tools.everything import everything
from toolstash import ConsumerContext, Ctx, Tool, ToolSet
from toolstash.toolsets import kv_reader, paginator, pipeline, text_content, text_search


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["function"]["name"] for tool in tools]


def enum_of(tool: dict[str, Any]) -> list[str] | None:
    return tool["function"]["parameters"]["properties"].get("workspace_id", {}).get("enum")


@pytest.fixture
def small() -> Ctx:
    ctx = Ctx("memory:")

    @ctx.producer(workspace_type="papers", toolsets=[text_search(ctx), pipeline(ctx)])
    def load_papers(workspace_id: str = "") -> list[int]:
        """Load papers."""
        return []

    @ctx.producer(workspace_type="settings", toolsets=kv_reader(ctx))
    def load_settings() -> dict[str, int]:
        """Load settings."""
        return {}

    @ctx.consumer("papers")
    def tidy(workspace_id: str, ctx: ConsumerContext) -> int:
        """Tidy papers up."""
        return 1

    ctx.add_tool(Tool("send_mail", "Send a mail.", {"type": "object"}, execute=lambda args: args))
    return ctx


def test_without_filters_there_is_everything_in_order(small: Ctx) -> None:
    sets = ["papers_search", "papers_field_values", "papers_pipe", "papers_aggregate"]
    sets += ["settings_get_keys", "settings_get_value"]
    assert names(small.get_tools()) == ["load_papers", "load_settings", "tidy", *sets, "send_mail"]
    assert small.get_tools() == [
        *small.get_producer_schemas(),
        *small.get_consumer_schemas(),
        *small.get_all_tool_schemas(),
    ]


def test_by_workspace_tools_and_consumers_admit_only_that_one(small: Ctx) -> None:
    bound = {tool["function"]["name"]: enum_of(tool) for tool in small.get_tools("papers_1")}
    assert list(bound) == names(small.get_tools())
    assert [name for name, ids in bound.items() if ids is None] == ["load_papers", "load_settings", "send_mail"]
    assert {tuple(ids) for ids in bound.values() if ids is not None} == {("papers_1",)}
    assert all(enum_of(tool) is None for tool in small.get_tools())


def test_by_tool_set_given_by_name_or_itself(small: Ctx) -> None:
    expected = ["settings_get_keys", "settings_get_value"]
    assert names(small.get_tools(toolsets=["settings"])) == expected
    assert names(small.get_tools(toolsets=[small.toolset("settings")])) == expected
    assert names(small.get_tools(toolsets=[])) == []


def test_by_name_in_the_usual_order_and_each_once(small: Ctx) -> None:
    chosen = ["papers_pipe", "load_papers", "papers_pipe"]
    assert names(small.get_tools(names=chosen)) == ["load_papers", "papers_pipe"]
    assert names(small.get_tools(names=())) == []


def test_filters_go_together(small: Ctx) -> None:
    (tool,) = small.get_tools("p_1", toolsets=["papers"], names=["papers_pipe"], strict=True)
    assert (enum_of(tool), tool["function"]["strict"]) == (["p_1"], True)
    with pytest.raises(ValueError, match="no tool 'load_papers'"):
        small.get_tools(toolsets=["papers"], names=["load_papers"])


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        ({"names": ["papers_serch"]}, ValueError, "no tool 'papers_serch'; did you mean 'papers_search'"),
        ({"names": ["x"]}, ValueError, r"no tool 'x' \(there are: load_papers, "),
        ({"toolsets": ["paper"]}, ValueError, "no tool set 'paper'; did you mean 'papers'"),
        ({"toolsets": [ToolSet("other")]}, ValueError, "no tool set 'other'"),
        ({"names": "papers_pipe"}, TypeError, r"names takes a list: names=\[…\]"),
        ({"toolsets": "papers"}, TypeError, r"toolsets takes a list: toolsets=\[…\]"),
        ({"workspace_id": ""}, ValueError, "the id of one workspace"),
    ],
)
def test_unknown_names_are_refused_early(small: Ctx, filters: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        small.get_tools(**filters)


def test_no_name_is_listed_twice() -> None:
    ctx = Ctx("memory:")

    def add(toolset: ToolSet) -> None:
        @toolset.tool(name="shared")
        def shared(workspace_id: str) -> str:
            return workspace_id

    add(ctx.toolset("one"))
    add(ctx.toolset("one"))
    with pytest.raises(ValueError, match="the tool name 'shared' is taken by one"):
        add(ctx.toolset("two"))
    assert names(ctx.get_tools()) == ["shared"]


@pytest.mark.parametrize("strict", [False, True])
async def test_the_examples_of_steps_and_metrics_can_be_sent_as_they_are(strict: bool) -> None:
    async with everything() as ctx:
        rows = [{"year": 2024, "score": n} for n in range(9)]
        await ctx.store_workspace(rows, workspace_type="papers", workspace_id="p")
        for name, argument in (("papers_pipe", "steps"), ("papers_aggregate", "metrics")):
            (tool,) = ctx.get_tools(names=[name], strict=strict)
            said = tool["function"]["parameters"]["properties"][argument]["description"]
            (example,) = re.findall(r"such as (\[.*\]|\{.*\})[.;]", said)
            answer = await ctx.adispatch_tool_call(name, {"workspace_id": "p", argument: json.loads(example)})
            assert answer.get("items", answer.get("result"))


def test_common_parameters_are_described_without_a_docstring() -> None:
    ctx = Ctx("memory:")

    @ctx.producer(workspace_type="a")
    def load(workspace_id: str, query: str, limit: int = 5, metrics: Any = None, unheard: int = 1) -> list[int]:
        return []

    (tool,) = ctx.get_tools()
    described = [n for n, part in tool["function"]["parameters"]["properties"].items() if part.get("description")]
    assert described == ["workspace_id", "query", "limit", "metrics"]


async def test_data_that_no_tool_reads_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Ctx("memory:") as ctx:

        @ctx.producer(workspace_type="page", toolsets=[paginator(ctx), text_content(ctx)])
        def load(shape: str) -> Any:
            return {"dict": {"a": 1}, "list": [1], "scalar": "text"}[shape]

        with caplog.at_level("WARNING", "toolstash"):
            notice = await ctx.adispatch_tool_call("load", {"shape": "dict"})
            await ctx.adispatch_tool_call("load", {"shape": "list"})
            await ctx.adispatch_tool_call("load", {"shape": "scalar"})
        assert [record.getMessage() for record in caplog.records] == [
            f"no tool of page reads the dict data of workspace {notice['workspace_id']}"
        ]
        assert "available_tools" not in notice


def test_the_prompt_of_a_small_ctx(small: Ctx) -> None:
    prompt = small.system_prompt("You are a research assistant.\n")
    assert prompt.startswith("You are a research assistant.\n\n## Tools that fetch\n")
    assert "- `load_papers`: Load papers. Read with: papers_search, papers_field_values, papers_pipe" in prompt
    assert "- `load_settings`: Load settings. Read with: settings_get_keys, settings_get_value." in prompt
    assert "- `tidy`: Tidy papers up." in prompt
    assert "- `…_search` finds rows by words" in prompt
    assert "- `send_mail`: Send a mail." in prompt
    assert "suggested_action" in prompt
    assert len(prompt) < 2_000


@pytest.mark.parametrize("absent", ["paginate", "read_page", "has_next", "get_item", "sort_by", "append", "$regex"])
def test_the_prompt_names_nothing_that_is_not_there(small: Ctx, absent: str) -> None:
    assert absent not in small.system_prompt()


def test_the_prompt_names_only_tools_that_are_there() -> None:
    ctx = everything()
    prompt = ctx.system_prompt()
    ends = {name.split("_", 1)[-1] for name in names(ctx.get_tools())}
    known = {*names(ctx.get_tools()), *ends}
    said = [word.removeprefix("…_") for word in re.findall(r"^- `([^`]+)`", prompt, re.MULTILINE)]
    said += [name for line in re.findall(r"Read with: ([^(.]*)", prompt) for name in line.strip().split(", ")]
    assert len(said) > 30
    assert [word for word in said if not any(name == word or name.endswith(f"_{word}") for name in known)] == []
    assert "hidden" not in prompt


def test_the_prompt_says_no_ids_counts_or_times_and_stays_short() -> None:
    ctx = everything()
    before = ctx.system_prompt()
    assert before == everything().system_prompt()
    assert len(before) < 4_000
    for number in range(200):
        ctx.add_tool(Tool(f"tool_{number}", "Does it. " * 50, {"type": "object"}, execute=lambda args: args))
    prompt = ctx.system_prompt()
    assert "tool_20" in prompt
    assert "+173 more" in prompt
    assert len(prompt) < 10_000


@pytest.mark.parametrize("kinds", [[], ["custom"], ["tool"]])
def test_the_prompt_of_what_has_no_producers(kinds: list[str]) -> None:
    ctx = Ctx("memory:")
    if "custom" in kinds:

        @ctx.toolset("own").tool
        def look(workspace_id: str) -> str:
            """Look at it."""
            return ""

    if "tool" in kinds:
        ctx.add_tool(Tool("send", "Send it.", {"type": "object"}, execute=lambda args: args))
    said = {"": "Hi.", "custom": "- `own_look`: Look at it.", "tool": "- `send`: Send it."}["".join(kinds)]
    prompt = ctx.system_prompt("Hi.")
    assert said in prompt
    assert "Tools that fetch" not in prompt
    assert Ctx("memory:").system_prompt() == ""
