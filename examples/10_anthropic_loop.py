"""An agent loop with Anthropic's Messages: a model reviews a package of Python's own library, and asks before it acts.

Run it with `python examples/10_anthropic_loop.py`. With ANTHROPIC_API_KEY set and the package `anthropic` installed, it
asks the model of `--model`, and you are the person. Otherwise both are played by this program. It starts a data store
of its own, or uses the one in TOOLSTASH_URL.
Your own: keep `run_agent`, and put your producers into `build`. `handle_tool_use` is the same for sync code.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib.util
import json
import os
import sysconfig
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from toolstash import Answer, Ctx, Request, Tool, ToolContext, ToolResult, pending
from toolstash.integrations.anthropic import ahandle_tool_use, has_tool_use, to_anthropic_tools
from toolstash.toolsets import filter_set, kv_reader, paginator, pipeline

QUESTION = (
    "Review the package asyncio of the standard library: how large is its module tasks, which function without a "
    "docstring is the longest, and what does it do? Then open an issue for its docstring."
)
CONVERSATION = "review-3"
MOST_TURNS = 12
Messages = list[dict[str, Any]]
AskModel = Callable[[str, Messages, list[dict[str, Any]]], Awaitable[Any]]


# The program: two producers, one of a dict and one of rows, and a tool that asks a person


def functions_in(path: Path) -> list[dict[str, Any]]:
    """A row for each function of a file."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    return [
        {
            "module": path.stem,
            "name": node.name,
            "lines": (node.end_lineno or node.lineno) - node.lineno + 1,
            "has_docstring": ast.get_docstring(node) is not None,
            "source": "".join(lines[node.lineno - 1 : node.end_lineno]),
        }
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def size_of(lines: list[str]) -> dict[str, int]:
    """Of a file."""
    starts = ("def ", "async def ", "class ")
    return {"lines": len(lines), "definitions": sum(line.lstrip().startswith(starts) for line in lines)}


def files_of(package: str) -> list[Path]:
    """The files of a package of the standard library. A name that is none of them has no files."""
    library = Path(sysconfig.get_path("stdlib"))
    return sorted((library / package).glob("*.py")) if package.isidentifier() else []


def build() -> Ctx:
    """What the model may call."""
    ctx = Ctx(default_ttl=600, require_session=True)

    @ctx.producer(workspace_type="modules", toolsets=kv_reader(ctx))
    def measure_package(package: str) -> dict[str, Any]:
        """Measure every module of a package of Python's standard library."""
        return {path.stem: size_of(path.read_text(encoding="utf-8").splitlines()) for path in files_of(package)}

    @ctx.producer(workspace_type="functions", toolsets=[filter_set(ctx), pipeline(ctx), paginator(ctx)])
    def read_package(package: str) -> list[dict[str, Any]]:
        """Read every function of a package of Python's standard library, with its source."""
        return [row for path in files_of(package) for row in functions_in(path)]

    ctx.add_tool(Tool("open_issue", "Open an issue in the tracker.", ISSUE, execute=open_issue))
    return ctx


TEXTS = {name: {"type": "string"} for name in ("title", "body")}
ISSUE = {"type": "object", "properties": TEXTS, "required": list(TEXTS)}
LABELS = ["now", "next release", "some day"]


async def open_issue(args: dict[str, Any], context: ToolContext) -> ToolResult | dict[str, Any]:
    """Asks in its first run for what only a person knows; an answer that is none of the labels is refused."""
    if context.answer is None:
        asked = f"The agent opens the issue “{args['title']}”. When should it be done?"
        return pending(kind="question", prompt=asked, data={"schema": {"enum": LABELS}})
    return {"issue": 4711, "title": args["title"], "label": context.answer.data}  # in its place: your tracker


# The loop: all that an agent needs


async def run_agent(
    ctx: Ctx, ask_model: AskModel, messages: Messages, wait_for: Callable[[Request], Answer | None]
) -> str:
    """Asks the model, runs the tools that it calls, and asks again, until it has an answer."""
    tools = to_anthropic_tools(ctx)
    system = ctx.system_prompt("You review code. Answer in short sentences.")
    for _ in range(MOST_TURNS):
        response = await ask_model(system, messages, tools)
        content = content_of(response)
        messages.append({"role": "assistant", "content": content})
        tell(content)
        if not has_tool_use(response):
            return "".join(block["text"] for block in content if block["type"] == "text")
        results = await ahandle_tool_use(  # all calls of the turn at the same time
            ctx, response, tools=tools, session_id=CONVERSATION, wait_for=wait_for
        )
        messages.append({"role": "user", "content": results})
        tell(results)
    return "The model has found no end."


def content_of(response: Any) -> list[dict[str, Any]]:
    """The blocks of the model's message as JSON, of an object of the SDK or a dict."""
    return (response if isinstance(response, dict) else response.to_dict())["content"]


def tell(blocks: list[dict[str, Any]]) -> None:
    """Blocks, one line each."""
    for block in blocks:
        if block["type"] == "tool_use":
            print(f"model  {block['id']:<9} {block['name']} {shortened(json.dumps(block['input']))}")
        elif block["type"] == "tool_result":
            mark = "error " if block.get("is_error") else ""
            print(f"   {mark:<6}{block['tool_use_id']:<9} {shortened(block['content'])}")


def shortened(text: str, most: int = 140) -> str:
    """The beginning of a text; the model reads all of it."""
    return text if len(text) <= most else f"{text[: most - 1]}… ({len(text):,} characters)"


# The person, and the real model


def ask_person(request: Request) -> Answer | None:
    """Somebody at this terminal. It may block: it runs in a thread."""
    said = input(f"\nyou    {request.prompt} ({', '.join(LABELS)}; anything else refuses) ").strip()
    return Answer(request.id, ok=said in LABELS, data=said, reason=said)


def played_person(request: Request) -> Answer | None:
    """In place of a person."""
    print(f"person (played by this program) {request.prompt}\n       {LABELS[1]}")
    return Answer(request.id, ok=True, data=LABELS[1])


def real_model(model: str) -> AskModel:
    """Anthropic's."""
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic()

    async def ask(system: str, messages: Messages, tools: list[dict[str, Any]]) -> Any:
        return await client.messages.create(model=model, max_tokens=4096, system=system, messages=messages, tools=tools)

    return ask


# The played model: it answers in the shape of the SDK, and reads nothing but its messages


def played_model() -> AskModel:
    """A script of six turns. The third one repairs a mistake of the second."""
    turns = iter([load, look_around, repair_and_find, read_source, act, conclude])

    async def ask(system: str, messages: Messages, tools: list[dict[str, Any]]) -> dict[str, Any]:
        blocks = [block for message in messages if message["role"] == "user" for block in message["content"]]
        results = [json_or_text(block["content"]) for block in blocks if isinstance(block, dict)]
        return reply(next(turns)(results), len(messages))

    return ask


def json_or_text(content: str) -> Any:
    """What a tool gave."""
    try:
        return json.loads(content)
    except ValueError:
        return content


Said = list[tuple[str, dict[str, Any]]] | str


def load(_: list[Any]) -> Said:
    """Two calls in one turn."""
    return [("measure_package", {"package": "asyncio"}), ("read_package", {"package": "asyncio"})]


def look_around(results: list[Any]) -> Said:
    """Again two. No key has an ending, as the model is about to read."""
    modules, functions = (notice["workspace_id"] for notice in results)
    no_docstring = {"filter": {"has_docstring": False}}
    longest = {"sort": {"field": "lines", "order": "desc"}}
    steps = [no_docstring, longest, {"limit": 3}, {"select": ["module", "name", "lines"]}]
    return [
        ("modules_get_value", {"workspace_id": modules, "key": "tasks.py"}),
        ("functions_pipe", {"workspace_id": functions, "steps": steps}),
    ]


def repair_and_find(results: list[Any]) -> Said:
    """The key that the error lists, and where the function is."""
    modules, functions, refused, longest = results
    key = next(key for key in refused["available_keys"] if key.startswith("tasks"))
    as_long = {"field": "lines", "value": longest["items"][0]["lines"]}
    return [
        ("modules_get_value", {"workspace_id": modules["workspace_id"], "key": key}),
        ("functions_filter_by", {"workspace_id": functions["workspace_id"], **as_long}),
    ]


def read_source(results: list[Any]) -> Said:
    """One field of one row."""
    wanted = results[3]["items"][0]
    found = next(found for found in results[5]["results"] if found["item"]["name"] == wanted["name"])
    arguments = {"workspace_id": results[1]["workspace_id"], "index": found["index"], "field": "source"}
    return [("functions_get_item", arguments)]


def act(results: list[Any]) -> Said:
    """What a person has to say something to."""
    longest = results[3]["items"][0]
    title = f"{longest['module']}.{longest['name']} has no docstring"
    return [("open_issue", {"title": title, "body": f"It has {longest['lines']} lines."})]


def conclude(results: list[Any]) -> Said:
    """The answer, of what the tools gave."""
    tasks, longest, source, issue = results[4], results[3]["items"][0], results[6]["value"], results[7]
    name = f"{longest['module']}.{longest['name']} ({longest['lines']} lines)"
    return (
        f"tasks has {tasks['lines']} lines and {tasks['definitions']} definitions. The longest function without a "
        f"docstring is {name}; it begins “{source.splitlines()[0].strip()}”. "
        f"Issue {issue['issue']} is opened ({issue['label']})."
    )


def reply(said: Said, number: int) -> dict[str, Any]:
    """What Messages would send."""
    content: list[dict[str, Any]] = [{"type": "text", "text": said if isinstance(said, str) else "Let me see."}]
    if not isinstance(said, str):
        content += [
            {"type": "tool_use", "id": f"toolu_{number}{'ab'[n]}", "name": name, "input": given}
            for n, (name, given) in enumerate(said)
        ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "played",
        "content": content,
        "stop_reason": "end_turn" if isinstance(said, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


async def main(model: str, question: str, is_played: bool) -> None:
    """One question, and what it has cost."""
    ask, person = (played_model(), played_person) if is_played else (real_model(model), ask_person)
    print(f"The model is {'played by this program: there is no key, or it was asked for' if is_played else model}.")
    async with build() as ctx:
        messages: Messages = [{"role": "user", "content": question}]
        print(f"user   {question}")
        print(f"\nanswer {await run_agent(ctx, ask, messages, person)}")
        blocks = [block for message in messages[1:] if message["role"] == "user" for block in message["content"]]
        read = sum(len(block["content"]) for block in blocks)
        with ctx.session(CONVERSATION):
            stored = (await ctx.stats()).chars_kept_out
        print(f"\nThe package has {stored:,} characters. The model has read {read:,} in results of tools, ", end="")
        print(f"so {stored - read:,} were kept out.")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default=QUESTION, help="what to ask; the played model knows one only")
    parser.add_argument("--model", default="claude-sonnet-5-5", help="a model of Anthropic's (default: %(default)s)")
    parser.add_argument("--played", action="store_true", help="play the model also where there is a key")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = parse()
    can_ask = bool(os.environ.get("ANTHROPIC_API_KEY")) and importlib.util.find_spec("anthropic") is not None
    asyncio.run(main(given.model, given.question, given.played or not can_ask))
