"""A process that builds an index, or takes one away, as far as it is told to; then it waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from toolstash import RedisStore
from toolstash.store import index_builder


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def halt_after(owner: Any, name: str, times: int) -> None:
    """Says "halted" and stays there when a method was done so many times."""
    work = getattr(owner, name)
    done = 0

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal done
        result = await work(*args, **options)
        done += 1
        if done >= times:
            say("halted")
            await asyncio.Event().wait()
        return result

    setattr(owner, name, counted)


def halt_after_unlinking(store: RedisStore) -> None:
    """The same after some documents were taken away."""
    command = store._connections.command

    async def counted(*words: Any) -> Any:
        result = await command(*words)
        if words[0] == "UNLINK":
            say("halted")
            await asyncio.Event().wait()
        return result

    store._connections.command = counted  # type: ignore[method-assign]


async def main(url: str, prefix: str, mode: str, name: str, *fields: str) -> None:
    index_builder.CHUNK_DOCUMENTS = 10
    index_builder.UNLINKED_AT_ONCE = 10
    store = RedisStore(url, prefix=prefix)
    at = await store.locate(name)
    await store._indexes.ability()
    say("ready")
    if mode == "build-when-told":
        await asyncio.to_thread(sys.stdin.readline)
        say(str(await store.build_index(name, [*fields] or None)))
    elif mode == "halt-writing":
        halt_after(index_builder._Build, "_put", 3)
        await store.build_index(name)
    elif mode == "halt-before-publishing":
        halt_after(index_builder._Build, "_fill", 1)
        await store.build_index(name)
    elif mode == "halt-unlinking":
        assert await store.build_index(name)
        await store._indexes.settle()
        halt_after_unlinking(store)
        await store.drop(at)
        await asyncio.Event().wait()
    elif mode == "end-while-building":
        halted = asyncio.Event()
        put = index_builder._Build._put

        async def slow(*args: Any) -> Any:
            halted.set()
            return await put(*args)

        index_builder._Build._put = slow  # type: ignore[method-assign]
        store.build_index_later(at, "", None)
        await halted.wait()
        return
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
