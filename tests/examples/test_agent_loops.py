"""The agent loops with the models' APIs: as they are without a key, and with the real SDKs against a played server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
OPENAI, ANTHROPIC = "09_openai_loop.py", "10_anthropic_loop.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no embedded server on Windows")


def run(program: str, *arguments: str, said: str = "", **environment: str) -> str:
    hidden = ("TOOLSTASH_", "OPENAI_", "ANTHROPIC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / program), *arguments],
        input=said,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=kept | environment | {"PYTHONUTF8": "1"},
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def loaded(program: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(program.removesuffix(".py"), EXAMPLES / program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def played_api(program: str, seen: list[dict[str, Any]]) -> Iterator[str]:
    """A server that answers a model API's requests with the example's own script. Gives its address."""
    ask = loaded(program).played_model()

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append({"path": self.path, **request})
            system = [request["system"]] if "system" in request else []
            body = json.dumps(asyncio.run(ask(*system, request["messages"], request["tools"]))).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def what_openai_tells(shown: str) -> None:
    """The story of example 09, checked against the tickets."""
    lines = (EXAMPLES / "data" / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    tickets = [json.loads(line) for line in lines]
    tags = Counter(tag for ticket in tickets if ticket["status"] == "open" for tag in ticket["tags"])
    found = [ticket for ticket in tickets if ticket["status"] == "open" and "XV-77" in json.dumps(ticket)]
    oldest = min(found, key=lambda ticket: ticket["created"])
    answer = re.search(r"^answer Most open tickets have the tags (.*)\. (.*)$", shown, re.MULTILINE)
    assert answer is not None
    told = dict(re.findall(r"(\w+) \((\d+)\)", answer[1]))
    assert [int(count) for count in told.values()] == [count for _, count in tags.most_common(3)]
    assert all(tags[tag] == int(count) for tag, count in told.items())
    assert answer[2] == f"The answer to {oldest['id']} is sent."
    assert f"Send this to the customer of {oldest['id']}? Dear {oldest['customer']['name']}," in shown
    assert re.search(r"^model  4a .*\nmodel  4b ", shown, re.MULTILINE)
    assert re.search(r"^   4a .*\n   4b +\{\"error\":\"Step 0: unknown operation 'where'", shown, re.MULTILINE)
    assert kept_out(shown, "tickets") > 10_000


def what_anthropic_tells(shown: str) -> None:
    """The story of example 10, checked against the files."""
    lines = Path(asyncio.tasks.__file__).read_text(encoding="utf-8").splitlines()
    assert f"answer tasks has {len(lines)} lines and " in shown.replace("Let me see.", "")
    assert re.search(r"^model  toolu_1a +measure_package .*\nmodel  toolu_1b +read_package", shown, re.MULTILINE)
    assert re.search(
        r"^   error toolu_3a +\{\"error\":\"Key 'tasks.py' not found.*\n {9}toolu_3b ", shown, re.MULTILINE
    )
    begins = re.search(r"is (\w+)\.(\w+) \((\d+) lines\); it begins “(?:async )?def (\w+)\(", shown)
    assert begins is not None
    assert begins[2] == begins[4]
    assert shown.count("\n   error ") == 1  # no other call went wrong
    assert "Issue 4711 is opened (next release)." in shown
    assert kept_out(shown, "package") > 400_000


def kept_out(shown: str, what: str) -> int:
    told = re.search(
        rf"^The {what} ha(?:s|ve) (\S+) characters\..* read (\S+) in .* so (\S+) were", shown, re.MULTILINE
    )
    assert told is not None
    stored, read, kept = (int(number.replace(",", "")) for number in told.groups())
    assert kept == stored - read
    return kept


@pytest.mark.parametrize(("program", "story"), [(OPENAI, what_openai_tells), (ANTHROPIC, what_anthropic_tells)])
def test_without_a_key_the_program_plays_the_model_and_says_so(program: str, story: Any) -> None:
    shown = run(program)
    assert shown.startswith("The model is played by this program: there is no key")
    assert "person (played by this program)" in shown
    story(shown)


def test_the_loop_of_chat_completions_with_the_real_package() -> None:
    pytest.importorskip("openai")
    seen: list[dict[str, Any]] = []
    with played_api(OPENAI, seen) as address:
        shown = run(OPENAI, said="y\n", OPENAI_API_KEY="none", OPENAI_BASE_URL=f"{address}/v1")
    assert shown.startswith("The model is gpt-5-mini.")
    assert "you    Send this to the customer of " in shown
    what_openai_tells(shown)
    assert {request["path"] for request in seen} == {"/v1/chat/completions"}
    answered = [message["tool_call_id"] for message in seen[-1]["messages"] if message["role"] == "tool"]
    asked = [call["id"] for message in seen[-1]["messages"] for call in message.get("tool_calls", [])]
    assert answered == asked
    assert len(asked) == 6


def test_a_person_may_say_no() -> None:
    pytest.importorskip("openai")
    seen: list[dict[str, Any]] = []
    with played_api(OPENAI, seen) as address:
        shown = run(OPENAI, said="not today\n", OPENAI_API_KEY="none", OPENAI_BASE_URL=f"{address}/v1")
    last = json.loads(seen[-1]["messages"][-1]["content"])
    assert (last["status"], last["reason"]) == ("declined", "not today")
    assert "is sent" not in shown


def test_the_loop_of_messages_with_the_real_package() -> None:
    pytest.importorskip("anthropic")
    seen: list[dict[str, Any]] = []
    with played_api(ANTHROPIC, seen) as address:
        shown = run(ANTHROPIC, said="next release\n", ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=address)
    assert shown.startswith("The model is claude-sonnet-5-5.")
    what_anthropic_tells(shown)
    assert {request["path"] for request in seen} == {"/v1/messages"}
    asked = [block["id"] for block in blocks_of(seen[-1], "assistant") if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks_of(seen[-1], "user")]
    assert answered == asked
    assert len(asked) == 8


def blocks_of(request: dict[str, Any], role: str) -> list[dict[str, Any]]:
    blocks = [block for message in request["messages"] if message["role"] == role for block in message["content"]]
    return [block for block in blocks if isinstance(block, dict)]


@pytest.mark.parametrize("program", [OPENAI, ANTHROPIC])
def test_it_says_what_it_is_for_and_how_it_is_run(program: str) -> None:
    shown = run(program, "--help")
    for words in (f"`python examples/{program}`", "_API_KEY", "Your own", "--model", "--played"):
        assert words in shown
