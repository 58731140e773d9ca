"""An agent loop with OpenAI's Chat Completions: a model explores 60 support tickets, and a person lets it answer one.

Run it with `python examples/09_openai_loop.py`. With OPENAI_API_KEY set and the package `openai` installed, it asks the
model of `--model`, and you are the person. Otherwise both are played by this program. It starts a data store of its
own, or uses the one in TOOLSTASH_URL.
Your own: keep `run_agent`, and put your producers into `build`. `handle_tool_calls` is the same for sync code.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from toolstash import Answer, Ctx, Request, Tool, ToolContext, ToolResult, pending
from toolstash.integrations.openai import ahandle_tool_calls, has_tool_calls, to_openai_tools
from toolstash.toolsets import paginator, pipeline, text_search

TICKETS = Path(__file__).parent / "data" / "tickets.jsonl"
QUESTION = (
    "Which tags have the most open tickets? And find the oldest open ticket about error XV-77 and tell its customer "
    "that a new version will be there on Friday."
)
CONVERSATION = "conversation-17"
MOST_TURNS = 12
Messages = list[dict[str, Any]]
AskModel = Callable[[Messages, list[dict[str, Any]]], Awaitable[Any]]


def build() -> Ctx:
    """One producer with three tool sets, and a tool that asks a person before it acts."""
    ctx = Ctx(default_ttl=600, require_session=True)

    @ctx.producer(workspace_type="tickets", toolsets=[text_search(ctx), pipeline(ctx), paginator(ctx)])
    def load_tickets() -> list[dict[str, Any]]:
        """Load all support tickets of March."""
        return [json.loads(line) for line in TICKETS.read_text(encoding="utf-8").splitlines()]

    ctx.add_tool(Tool("send_answer", "Send an answer to the customer of a ticket.", ANSWER, execute=send_answer))
    return ctx


ANSWER = {
    "type": "object",
    "properties": {
        "ticket_id": {"type": "string", "description": "Such as T-1001."},
        "text": {"type": "string", "description": "What the customer reads."},
    },
    "required": ["ticket_id", "text"],
}


async def send_answer(args: dict[str, Any], context: ToolContext) -> ToolResult | str:
    """Asks in its first run, and is run again if the person says yes."""
    if context.answer is None:
        return pending(kind="approval", prompt=f"Send this to the customer of {args['ticket_id']}? {args['text']}")
    return f"The answer to {args['ticket_id']} is sent."  # in its place: your mail


# The loop: all that an agent needs


async def run_agent(
    ctx: Ctx, ask_model: AskModel, messages: Messages, wait_for: Callable[[Request], Answer | None]
) -> str:
    """Asks the model, runs the tools that it calls, and asks again, until it has an answer."""
    tools = to_openai_tools(ctx)
    for _ in range(MOST_TURNS):
        response = await ask_model(messages, tools)
        messages.append(message_of(response))
        tell(messages[-1])
        if not has_tool_calls(response):
            return messages[-1]["content"]
        results = await ahandle_tool_calls(  # all calls of the turn at the same time
            ctx, response, tools=tools, session_id=CONVERSATION, wait_for=wait_for
        )
        messages.extend(results)
        for result in results:
            tell(result)
    return "The model has found no end."


def message_of(response: Any) -> dict[str, Any]:
    """The model's message as JSON, of an object of the SDK or a dict."""
    if isinstance(response, dict):
        return response["choices"][0]["message"]
    return response.choices[0].message.to_dict()


def tell(message: dict[str, Any]) -> None:
    """A message, one line for each call."""
    if message["role"] == "tool":
        print(f"   {message['tool_call_id']:<7} {shortened(message['content'])}")
        return
    for call in message.get("tool_calls") or []:
        print(f"model  {call['id']:<7} {call['function']['name']} {shortened(call['function']['arguments'])}")


def shortened(text: str, most: int = 150) -> str:
    """The beginning of a text; the model reads all of it."""
    return text if len(text) <= most else f"{text[: most - 1]}… ({len(text):,} characters)"


# The person, and the real model


def ask_person(request: Request) -> Answer | None:
    """Somebody at this terminal. It may block: it runs in a thread."""
    said = input(f"\nyou    {request.prompt}\n       y or n: ")
    return Answer(request.id, ok=said.strip().lower().startswith("y"), reason=said)


def played_person(request: Request) -> Answer | None:
    """In place of a person."""
    print(f"person (played by this program) {request.prompt}\n       yes")
    return Answer(request.id, ok=True)


def real_model(model: str) -> AskModel:
    """OpenAI's, or whatever OPENAI_BASE_URL names."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI()

    async def ask(messages: Messages, tools: list[dict[str, Any]]) -> Any:
        return await client.chat.completions.create(model=model, messages=messages, tools=tools)

    return ask


# The played model: it answers in the shape of the SDK, and reads nothing but its messages


def played_model() -> AskModel:
    """A script of five turns. The third one repairs a mistake of the second."""
    turns = iter([load, look_around, repair_and_read, answer_customer, conclude])

    async def ask(messages: Messages, tools: list[dict[str, Any]]) -> dict[str, Any]:
        results = [json_or_text(message["content"]) for message in messages if message["role"] == "tool"]
        said = next(turns)(results)
        return completion(said, len(messages))

    return ask


def json_or_text(content: str) -> Any:
    """What a tool gave."""
    try:
        return json.loads(content)
    except ValueError:
        return content


def load(_: list[Any]) -> list[tuple[str, Any]] | str:
    """Fetches the data."""
    return [("load_tickets", {})]


def look_around(results: list[Any]) -> list[tuple[str, Any]] | str:
    """Two calls in one turn. `where` is no step, as the model is about to read."""
    in_tickets = {"workspace_id": results[0]["workspace_id"]}
    steps = [{"where": {"status": "open"}}, {"flatten": "tags"}]
    return [
        ("tickets_search", {**in_tickets, "query": "XV-77", "max_results": 20}),
        ("tickets_pipe", {**in_tickets, "steps": steps}),
    ]


def repair_and_read(results: list[Any]) -> list[tuple[str, Any]] | str:
    """Does the pipeline again, with what the error names, and reads the oldest of the hits whole."""
    notice, found, refused = results
    in_tickets = {"workspace_id": notice["workspace_id"]}
    filter_name = refused["available_operations"][0]
    by_tag = {"group_by": {"field": "tags", "metrics": {"tickets": "count"}}}
    largest = {"sort": {"field": "tickets", "order": "desc"}}
    steps = [{filter_name: {"status": "open"}}, {"flatten": "tags"}, by_tag, largest, {"limit": 3}]
    hits = [hit for hit in found["matches"] if hit["item"]["status"] == "open"]
    oldest = min(hits, key=lambda hit: hit["item"]["created"])
    return [
        ("tickets_pipe", {**in_tickets, "steps": steps}),
        ("tickets_get_item", {**in_tickets, "index": oldest["index"]}),
    ]


def answer_customer(results: list[Any]) -> list[tuple[str, Any]] | str:
    """Acts, which a person has to allow."""
    ticket = results[4]
    text = f"Dear {ticket['customer']['name']}, a new version will be there on Friday."
    return [("send_answer", {"ticket_id": ticket["id"], "text": text})]


def conclude(results: list[Any]) -> list[tuple[str, Any]] | str:
    """The answer, of what the tools gave."""
    tags = ", ".join(f"{row['tags']} ({row['tickets']})" for row in results[3]["items"])
    return f"Most open tickets have the tags {tags}. {results[-1]}"


def completion(said: list[tuple[str, Any]] | str, number: int) -> dict[str, Any]:
    """What Chat Completions would send."""
    message: dict[str, Any] = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if not isinstance(said, str):
        message["tool_calls"] = [
            {"id": f"{number}{'ab'[n]}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for n, (name, given) in enumerate(said)
        ]
    reason = "stop" if isinstance(said, str) else "tool_calls"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    return {"id": f"played-{number}", "object": "chat.completion", "created": 0, "model": "played", "choices": [choice]}


async def main(model: str, question: str, is_played: bool) -> None:
    """One question, and what it has cost."""
    ask, person = (played_model(), played_person) if is_played else (real_model(model), ask_person)
    print(f"The model is {'played by this program: there is no key, or it was asked for' if is_played else model}.")
    async with build() as ctx:
        messages: Messages = [
            {"role": "system", "content": ctx.system_prompt("You work at a support desk. Answer in short sentences.")},
            {"role": "user", "content": question},
        ]
        print(f"user   {question}")
        print(f"\nanswer {await run_agent(ctx, ask, messages, person)}")
        read = sum(len(message["content"]) for message in messages if message["role"] == "tool")
        with ctx.session(CONVERSATION):
            stored = (await ctx.stats()).chars_kept_out
        print(f"\nThe tickets have {stored:,} characters. The model has read {read:,} in results of tools, ", end="")
        print(f"so {stored - read:,} were kept out.")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default=QUESTION, help="what to ask; the played model knows one only")
    parser.add_argument("--model", default="gpt-5-mini", help="a model of OpenAI's (default: %(default)s)")
    parser.add_argument("--played", action="store_true", help="play the model also where there is a key")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = parse()
    can_ask = bool(os.environ.get("OPENAI_API_KEY")) and importlib.util.find_spec("openai") is not None
    asyncio.run(main(given.model, given.question, given.played or not can_ask))
