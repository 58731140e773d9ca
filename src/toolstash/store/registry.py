"""Which workspaces and sessions there are on a server, without looking through its keys."""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from toolstash.contracts import SHARED_SPACE, Address, Stats
from toolstash.errors import StoreUnavailableError
from toolstash.store.codec import pack
from toolstash.wire import keys as layout
from toolstash.wire import scripts
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys

IDS_AT_ONCE = 500
SPACES_AT_ONCE = 200
SESSION_SPARE_SECONDS = 120
MOST_LABELS = 10_000
MISSING_SECONDS = 3.0  # for so long a label that was nowhere is not looked for again

T = TypeVar("T")


class Registry:
    """The registries of all spaces under one prefix."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        self._spaces: dict[str, str] = {}
        self._missing: dict[str, float] = {}

    def registration(self, space: str, ttl: float | None) -> builtins.list[scripts.ScriptCall]:
        """Notes a session's space just before its workspace or call, so that none is without."""
        if space == SHARED_SPACE:
            return []
        if self._missing:
            self._missing.pop(layout.label_of(space), None)
        expires_ms = None if ttl is None else int((time.time() + ttl + SESSION_SPARE_SECONDS) * 1000)
        return [scripts.register_session(self._keys.sessions, space, expires_ms)]

    async def let_go(self, space: str) -> None:
        """Lets an empty session expire in a day, unless a store came in between. If the server is full, later."""
        if space != SHARED_SPACE:
            with suppress(StoreUnavailableError):
                await self._let_go(space)

    async def _let_go(self, space: str) -> None:
        sessions = self._keys.sessions
        await self._connections.run(scripts.let_session_go(sessions, space, int(time.time() * 1000)))
        for key in (self._keys.expiring(space), self._keys.waiting(space)):
            last = await self._connections.command("ZREVRANGE", key, 0, 0, "WITHSCORES")
            if last:
                expires_ms = None if last[1] == b"inf" else int(float(last[1])) + SESSION_SPARE_SECONDS * 1000
                await self._connections.run(scripts.register_session(sessions, space, expires_ms))

    async def all_spaces(self) -> builtins.list[str]:
        """The shared space and those of all sessions."""
        members = await self._connections.command("ZRANGE", self._keys.sessions, 0, -1)
        return [SHARED_SPACE, *(member.decode() for member in members)]

    async def find_space(self, label: str) -> str | None:
        """The space whose ids end in a label. One made a moment ago may be missed for `MISSING_SECONDS`."""
        if label in self._spaces or time.monotonic() < self._missing.get(label, 0.0):
            return self._spaces.get(label)
        found = {layout.label_of(space): space for space in await self.all_spaces()}
        space = found.pop(label, None)
        if space is None:
            self._missing = _newest({**self._missing, label: time.monotonic() + MISSING_SECONDS})
        else:
            found[label] = space  # as the newest, which stays
        self._spaces = _newest({**self._spaces, **found})
        return space

    async def list(self, spaces: Sequence[str] | None, workspace_type: str | None) -> builtins.list[Address]:
        """Live workspaces of some spaces (None for all), oldest first."""
        wanted = b"" if workspace_type is None else pack(workspace_type)
        found: list[tuple[float, Address]] = []
        for space in await self.all_spaces() if spaces is None else spaces:
            created, base = self._keys.created(space), self._keys.base(space)
            for chunk in await self._registered(space):
                call = scripts.alive(created, base, wanted, [part for part, _ in chunk])
                live: Iterable[int] = await self._connections.run(call)
                found += [
                    (float(chunk[place][1]), Address(space, layout.decode_id(chunk[place][0].decode())))
                    for place in live
                ]
        return [address for _, address in sorted(found, key=lambda pair: pair[0])]

    async def sweep(self, space: str) -> builtins.list[str]:
        """Takes what is gone out of a registry; the ids."""
        keys = self._keys.created(space), self._keys.expiring(space), self._keys.base(space)
        swept: list[str] = []
        left = 0
        for chunk in await self._registered(space):
            left, *parts = await self._connections.run(scripts.sweep(*keys, [part for part, _ in chunk]))
            swept += [layout.decode_id(part.decode()) for part in parts]
        if left == 0:
            await self.let_go(space)
        return swept

    async def stats(self, spaces: Sequence[str] | None) -> Stats:
        """What is in some spaces (None for all)."""
        listed = await self.all_spaces() if spaces is None else [*spaces]
        weights: list[tuple[int, int, int]] = []
        for first in range(0, len(listed), SPACES_AT_ONCE):
            some = listed[first : first + SPACES_AT_ONCE]
            calls = [scripts.weigh(self._keys.created(space), self._keys.base(space)) for space in some]
            for count, size, chars in await self._connections.run_all(calls):
                weights.append((int(count), int(size), int(chars)))
        counts = [count for count, _, _ in weights]
        return Stats(
            sessions=sum(count > 0 and space != SHARED_SPACE for space, count in zip(listed, counts, strict=True)),
            workspaces=sum(counts),
            bytes=sum(size for _, size, _ in weights),
            chars_kept_out=sum(chars for _, _, chars in weights),
        )

    async def _registered(self, space: str) -> builtins.list[builtins.list[tuple[bytes, bytes]]]:
        """What the registry holds at one moment, in chunks: workspace parts with their times."""
        flat = await self._connections.command("ZRANGE", self._keys.created(space), 0, -1, "WITHSCORES")
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        return [pairs[start : start + IDS_AT_ONCE] for start in range(0, len(pairs), IDS_AT_ONCE)]


def _newest(labels: dict[str, T]) -> dict[str, T]:
    return dict(list(labels.items())[-MOST_LABELS:])
