"""Two workers change, index, sweep and ask workspaces in any order; a plain dict says what must come out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.search.place import Place, ask_or_gone, is_right, place, questions, rows_of
from toolstash import RedisStore, WorkspaceMeta
from toolstash.contracts import SHARED_SPACE, Address
from toolstash.errors import WorkspaceNotFoundError
from toolstash.query.index import TextView
from toolstash.store import index_builder, index_life
from toolstash.store.changes import Append, Delete, Patch
from toolstash.store.payload import Payload

CHANGES = ["append", "patch", "delete"]
OFTEN = ["build", "wait", "build", "wait", "build fields", "store"]
ACTIONS = [*OFTEN, *OFTEN, *CHANGES, "drop", "sweep", "lose"]
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from([0, 1]), st.sampled_from(["v", "w"]), st.integers(0, 3)),
    min_size=15,
    max_size=40,
)

asked: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def both_engines_answered() -> Iterator[None]:
    """Fails the module where one of the engines had little to say."""
    yield
    assert min(asked["index"], asked["python"]) > 0.1 * asked.total(), asked


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small workspaces are indexed too, in small steps, and a worker tries again at once."""
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 5)
    monkeypatch.setattr(index_life, "ASKED_FROM_ROWS", 5)
    monkeypatch.setattr(index_life, "TRY_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(index_builder, "CHUNK_DOCUMENTS", 5)


def counting(store: RedisStore) -> RedisStore:
    """Counts who answers."""
    answer = store._indexes.answer

    async def counted(*args: Any) -> Any:
        reading = await answer(*args)
        asked["python" if reading is None else "index"] += 1
        return reading

    store._indexes.answer = counted  # type: ignore[method-assign]
    return store


class Life:
    """What is done, and what must be there."""

    def __init__(self, there: Place) -> None:
        self.there = there
        self.stores = [counting(there.store()), counting(there.store())]
        self.model: dict[str, list[Any]] = {}
        self.version = 0
        self.building: list[asyncio.Task[Any]] = []

    async def step(self, action: str, worker: int, name: str, number: int) -> None:
        store, at = self.stores[worker], Address(SHARED_SPACE, name)
        if action == "store":
            await self.store(store, name, number)
        elif action == "sweep":
            self.later(store.sweep_expired())
        elif action == "build":
            self.later(store._indexes.build(at, TextView.of(None)))
        elif action == "build fields":
            self.later(store._indexes.build(at, TextView.of(["t"]) if number % 2 else None))
        elif action == "drop":
            assert await store.drop(at) == (self.model.pop(name, None) is not None)
        elif action == "wait":
            await self.wait()
            for other in range(len(questions())):
                await self.ask(at, other)
        elif action == "lose":
            await self.lose(number)
        elif name in self.model:
            await self.change(store, at, action, number)
        await self.ask(at, number)

    async def store(self, store: RedisStore, name: str, number: int) -> None:
        self.version += 1
        self.model[name] = rows_of(self.version, 8 + 4 * number)
        meta = WorkspaceMeta(name, "t", ttl=[None, 300.0][number % 2], index="lazy")
        await store.replace(meta, Payload([*self.model[name]]))

    async def change(self, store: RedisStore, at: Address, action: str, number: int) -> None:
        rows = self.model[at.workspace_id]
        self.version += 1
        if action == "append":
            added = rows_of(self.version, 1 + number)
            await store.mutate(at, Append(added))
            rows += added
        elif action == "patch" and number < len(rows):
            await store.mutate(at, Patch(number, {"t": f"red w3 v{self.version}"}))
            rows[number] = {**rows[number], "t": f"red w3 v{self.version}"}
        elif action == "delete" and len(rows) > 4:
            await store.mutate(at, Delete([0, number + 1]))
            del rows[number + 1], rows[0]

    async def lose(self, number: int) -> None:
        keys = await self.there.keys("doc", "shape", "indexes")
        if keys:
            await self.there.client.delete(keys[(number * 7) % len(keys)])

    async def ask(self, at: Address, number: int) -> None:
        asked = questions()
        for store in self.stores:
            question = asked[number % len(asked)]
            reading = await ask_or_gone(store, at, question)
            number += 1
            rows = self.model.get(at.workspace_id)
            if rows is None:
                assert reading is None
                continue
            assert reading is not None
            assert is_right(reading.data, rows, question)

    def later(self, work: Any) -> None:
        self.building.append(asyncio.ensure_future(work))

    async def wait(self) -> None:
        """Until what runs beside is done; that a workspace is gone is all that it may say."""
        for one in await asyncio.gather(*self.building, return_exceptions=True):
            assert not isinstance(one, Exception) or isinstance(one, WorkspaceNotFoundError), one
        self.building.clear()

    async def end(self) -> None:
        """All is done, and all that is left belongs to a workspace; and to none when they are dropped."""
        await self.wait()
        for store in self.stores:
            await store._indexes.settle()
        await self.stores[0].sweep_expired()
        for line in await self.there.left():
            assert line.split(":")[2] in self.model, line
        await self.stores[1].clear()
        await self.stores[1]._indexes.settle()
        await self.stores[1].sweep_expired()
        await self.there.nothing_is_left()


AFTER_A_DROP = [
    ("store", 0, "w", 1),
    ("build", 0, "w", 0),
    ("drop", 1, "w", 0),
    ("store", 1, "w", 2),
    ("ask", 0, "w", 0),
]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS.map(lambda steps: [("store", 0, "w", 3), *steps]))
@example(AFTER_A_DROP)
async def test_two_workers_and_a_dict(steps: list[tuple[str, int, str, int]]) -> None:
    async with place() as there:
        life = Life(there)
        for step in steps:
            await life.step(*step)
        await life.end()
