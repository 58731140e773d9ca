"""The back ends that every behaviour is tried on."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from tests.servers import NAMES, RealServer, shared_cluster, shared_server
from toolstash import BaseStore, MemoryStore, RedisStore
from toolstash.contracts import Address, WorkspaceMeta
from toolstash.query.index import TextView
from toolstash.query.questions import Question
from toolstash.store.base import Check
from toolstash.store.index_life import IndexLife
from toolstash.store.payload import Payload
from toolstash.store.primitives import Reading, Replaced, ReplaceRule
from toolstash.wire.keys import space_of_session

LIMITED = {"acl": "valkey", "acl-indexed": "redis-8.2"}
"""Back ends with a user of each store's own, who may touch its prefix only, and their servers."""
BACK_ENDS = ("memory", "embedded", "fakeredis", *NAMES, "cluster", "indexed", *LIMITED)
RIGHTS = "~{prefix}:* resetchannels +@all -@admin -@dangerous"
"""What a user needs for whom every key but those of one prefix is forbidden. docs/deployment.md shows the same."""


class CountedIndexes(IndexLife):
    """Indexes that count what they answered, by the kind of question."""

    def __init__(self, store: RedisStore) -> None:
        super().__init__(store._connections, store._keys, store.read_table)
        self.answered: Counter[str] = Counter()

    async def answer(self, at: Address, question: Question[Any], check: Check) -> Reading | None:
        reading = await super().answer(at, question, check)
        self.answered[type(question).__name__] += reading is not None
        return reading


class IndexedStore(RedisStore):
    """A store on a server with the search module that has an index of every list from the start."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(url, prefix=prefix)
        self._indexes: CountedIndexes = CountedIndexes(self)

    @property
    def answered(self) -> Counter[str]:
        """How many questions indexes answered, by their kind."""
        return self._indexes.answered

    async def replace(
        self,
        meta: WorkspaceMeta,
        payload: Payload,
        replace_if: ReplaceRule | None = None,
    ) -> Replaced:
        replaced = await super().replace(meta, payload, replace_if)
        if replaced.meta.data_shape == "list" and replaced.meta.item_count:
            at = Address(space_of_session(meta.session_id), meta.workspace_id)
            await self._indexes.build(at, TextView.of(None))
        return replaced


def make_user(server: RealServer, prefix: str, rights: str = RIGHTS) -> str:
    """The URL of a new user, who is called like the prefix and has its rights."""
    words = ["ACL", "SETUSER", prefix, "reset", "on", ">word", *rights.format(prefix=prefix).split()]
    with redis.Redis(port=server.port) as client:
        client.execute_command(*words)
    return f"redis://{prefix}:word@127.0.0.1:{server.port}"


def drop_user(server: RealServer, prefix: str) -> None:
    """Takes a user away."""
    with redis.Redis(port=server.port) as client:
        client.execute_command("ACL", "DELUSER", prefix)


def make_store(name: str) -> BaseStore:
    """A store of its own name space on a back end."""
    if name == "memory":
        return MemoryStore()
    if name == "embedded":
        return RedisStore("embedded:")
    prefix = f"t{secrets.token_hex(5)}"
    if name == "fakeredis":
        import fakeredis

        return RedisStore(fakeredis.FakeAsyncRedis(), prefix=prefix)
    if name == "indexed":
        return IndexedStore(shared_server("redis-8.2").url, prefix)
    if name == "acl":
        return RedisStore(make_user(shared_server(LIMITED[name]), prefix), prefix=prefix)
    if name == "acl-indexed":
        return IndexedStore(make_user(shared_server(LIMITED[name]), prefix), prefix)
    if name == "cluster":
        return RedisStore(shared_cluster().url, prefix=prefix)
    return RedisStore(shared_server(name).url, prefix=prefix)


@pytest.fixture(params=BACK_ENDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[BaseStore]:
    """An empty store on each back end."""
    if request.param == "embedded" and sys.platform == "win32":
        pytest.skip("no embedded server on Windows")
    made = make_store(request.param)
    yield made
    await made.clear()
    await made.aclose()
    if isinstance(made, RedisStore) and request.param in LIMITED:
        drop_user(shared_server(LIMITED[request.param]), made._connections.source.arguments["username"])
