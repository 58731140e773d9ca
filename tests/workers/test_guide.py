"""The programs in docs/workers.md run, on a real server in place of the one that they name."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import warnings
from types import ModuleType

import pytest

from tests.house.repository import python_blocks
from tests.house.sources import ROOT, Source
from tests.servers import shared_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # httpx will do, though it would rather have httpx2
    from fastapi.testclient import TestClient

PAGE = Source("docs/workers.md", (ROOT / "docs" / "workers.md").read_text(encoding="utf-8"))
NAMED = "redis://localhost:6379"


@pytest.fixture(autouse=True)
def own_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSTASH_PREFIX", f"t{secrets.token_hex(5)}")


def block(words: str) -> str:
    """The one block that has these words, with a server that is there."""
    (code,) = [code for _, code in python_blocks(PAGE) if words in code]
    return code.replace(NAMED, shared_server("valkey").url)


def loaded(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A block as the module that the text calls it."""
    module = ModuleType(name)
    exec(compile(block(words), name, "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_the_server_the_tasks_and_their_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKENS", '{"token of ann": "ann"}')
    loaded("tools", "# tools.py", monkeypatch)
    celery = loaded("jobs", "from celery import", monkeypatch)
    server = loaded("server", "FastAPI(", monkeypatch)
    worker = loaded("worker", "docket worker", monkeypatch)

    notice = celery.store_papers("graphs", "ann")
    count = ("papers_count", {"workspace_id": notice["workspace_id"]})
    assert celery.run_tool(*count, "ann")["count"] == 10_000
    assert "not found" in celery.run_tool(*count, "bob")["error"]
    assert asyncio.run(worker.tasks[0](*count, "ann"))["answer"]["count"] == 10_000
    with TestClient(server.app) as client:
        client.headers["authorization"] = "Bearer token of ann"
        asked = client.post(f"/tools/{count[0]}", json=count[1])
        assert asked.json() == {"answer": {"workspace_id": notice["workspace_id"], "count": 10_000}, "pid": os.getpid()}
        assert [client.post("/tools/x", content=body).status_code for body in ("{", "[]", "")] == [422] * 3
        assert 0 < client.get("/ready").json()["seconds"] < 5
        client.headers["authorization"] = "Bearer ann"
        assert client.post(f"/tools/{count[0]}", json=count[1]).status_code == 401
        del client.headers["authorization"]
        assert client.post(f"/tools/{count[0]}", json=count[1]).status_code in (401, 403)
    with pytest.raises(RuntimeError, match="closed"):
        celery.run_tool(*count, "ann")


def test_a_thread_pool() -> None:
    names: dict[str, object] = {}
    exec(block("ThreadPoolExecutor(32)"), names)
    assert len(names["notices"]) == 100  # type: ignore[arg-type]


def test_a_tool_that_takes_the_session_into_threads_of_its_own() -> None:
    names: dict[str, object] = {}
    exec(block("copy_context"), names)
    assert names["whole"]["item_count"] == 8  # type: ignore[index]


def test_a_script() -> None:
    names: dict[str, object] = {}
    exec(block("asyncio.run(main())"), names)
    counts = [len(names[name]) for name in ("first", "second", "third")]  # type: ignore[arg-type]
    assert counts == [1, 2, 2]
    names["ctx"].blocking.clear()  # type: ignore[attr-defined]
    names["ctx"].blocking.aclose()  # type: ignore[attr-defined]


async def test_a_store_of_ones_own_stays_open_until_it_is_closed() -> None:
    names: dict[str, object] = {}
    exec(block("max_connections=16"), names)
    ctx, store = names["ctx"], names["store"]
    with ctx.session("ann"):  # type: ignore[attr-defined]
        await ctx.store_workspace([1], workspace_type="numbers")  # type: ignore[attr-defined]
    await ctx.aclose()  # type: ignore[attr-defined]
    assert len(await store.list_workspaces()) == 1  # type: ignore[attr-defined]
    await store.clear()  # type: ignore[attr-defined]
    await store.aclose()  # type: ignore[attr-defined]


def test_a_call_without_a_session_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    lines = block("SessionRequiredError").splitlines()
    exec("\n".join(["async def cell():", *(f"    {line}" for line in lines)]), names := {})  # type: ignore[var-annotated]
    asyncio.run(names["cell"]())
    assert "session" in capsys.readouterr().out
