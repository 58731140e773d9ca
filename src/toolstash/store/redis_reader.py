"""Reading workspaces from Redis: one round trip for a page, bounded chunks of one version for more."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple

from toolstash.contracts import Address
from toolstash.errors import StoreUnavailableError, VersionConflictError, WorkspaceNotFoundError
from toolstash.store import records, refusals
from toolstash.store.background import Background
from toolstash.store.codec import decode, decode_all, unpack
from toolstash.store.cpu import on_cpu
from toolstash.store.primitives import Reading
from toolstash.store.records import Record
from toolstash.wire import scripts
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys

FIRST_PARTS = 200  # in one script; a transaction costs less above it
CHUNK_PARTS = 2_000
CHUNK_BYTES = 1_000_000
MOST_NAME_BYTES = 64_000_000
INLINE_BYTES = 256_000
TOUCH_SECONDS = 60.0
RESTARTS = 3
ROWS_AT_ONCE = 500


class Stretch(NamedTuple):
    """Undecoded parts of one moment; `values` belong to the names in `items` for a dict."""

    record: Record
    items: list[bytes]
    values: list[bytes]


class RedisReader:
    """Reads for one store. `missing` words the error for a workspace that is not there."""

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        missing: Callable[[str], WorkspaceNotFoundError],
        background: Background,
    ) -> None:
        self._connections = connections
        self._keys = keys
        self._missing = missing
        self._touched: dict[Address, float] = {}
        self._background = background

    async def read(self, at: Address, start: int, stop: int | None) -> Reading:
        """`BaseStore.read`."""
        stretch = await self._whole(at, start, stop)
        return Reading(stretch.record.meta(at), await _decoded(stretch, start, stop))

    async def documents(self, at: Address) -> tuple[Record, list[bytes]]:
        """All rows of a list as they are stored."""
        stretch = await self._whole(at, 0, None)
        return stretch.record, stretch.items

    async def _whole(self, at: Address, start: int, stop: int | None) -> Stretch:
        """A whole stretch: begins again when the workspace changes on the way, three times at most."""
        for _ in range(RESTARTS + 1):
            stretch = await self.first(at, start, stop)
            wanted = stretch.record.parts_between(start, stop)
            if len(stretch.items) >= wanted or await self._read_on(at, stretch, start, wanted):
                self.touch_later(at)
                return stretch
        raise StoreUnavailableError(
            f"Workspace '{at.workspace_id:.150}' is being changed over and over; it could not be read whole."
        )

    async def rows_before(self, at: Address, positions: Sequence[int]) -> list[tuple[bytes, Any]]:
        """Single rows of a list, as documents and as values.

        Raises:
            WorkspaceShapeMismatchError: Not a list.
            InvalidArgumentError: A position is out of range.
        """
        keys = self._keys.workspace(at)
        found: list[tuple[bytes, Any]] = []
        for start in range(0, len(positions), ROWS_AT_ONCE):
            chunk = positions[start : start + ROWS_AT_ONCE]
            calls = [scripts.read(keys, position, position + 1, most_parts=1) for position in chunk]
            for position, reply in zip(chunk, await self._connections.run_all(calls), strict=True):
                record = self._record(at, reply)
                refusals.require_list(record.meta(at))
                if not reply[2]:
                    raise refusals.no_such_index(position, record.count)
                found.append((reply[2][0], decode(reply[2][0], record.codec)))
        return found

    async def read_names(self, at: Address, start: int, stop: int | None) -> Reading:
        """`BaseStore.read_names`."""
        call = scripts.read_names(self._keys.workspace(at), start, stop, most_bytes=MOST_NAME_BYTES)
        reply = await self._connections.run(call)
        record = self._record(at, reply)
        self.touch_later(at)
        return Reading(record.meta(at), [decode(name, record.codec) for name in reply[2]])

    async def read_fields(self, at: Address, names: Sequence[str]) -> Reading:
        """`BaseStore.read_fields`. A name may stand in the form of either codec, so both are asked for."""
        forms = {form: name for name in names for form in records.name_forms(name)}
        reply = await self._connections.run(scripts.read_fields(self._keys.workspace(at), list(forms)))
        record = self._record(at, reply)
        self.touch_later(at)
        found = zip(forms.values(), reply[2], strict=False)
        fields = {name: decode(value, record.codec) for name, value in found if value is not None}
        return Reading(record.meta(at), fields)

    async def first(self, at: Address, start: int, stop: int | None) -> Stretch:
        """As much of a stretch as one script gives."""
        call = scripts.read(self._keys.workspace(at), start, stop, most_parts=FIRST_PARTS)
        reply = await self._connections.run(call)
        return Stretch(self._record(at, reply), reply[2], reply[3])

    async def rows(self, at: Address) -> AsyncGenerator[Any]:
        """The rows of a list as they are now, one by one. Rows appended meanwhile are not among them.

        Raises:
            VersionConflictError: Rows were changed or deleted on the way.
        """
        stretch = await self.first(at, 0, None)
        record = stretch.record
        refusals.require_list(record.meta(at))
        self.touch_later(at)
        given = 0
        while True:
            items = stretch.items
            for row in await on_cpu(lambda items=items: decode_all(items, record.codec)):
                yield row
            given += len(items)
            if given >= record.parts:
                return
            stretch = Stretch(record, [], [])
            if not await self._add_chunk(at, stretch, given, record.parts):
                raise VersionConflictError(
                    f"Workspace '{at.workspace_id:.150}' was changed while it was read.", version=record.version
                )

    async def _read_on(self, at: Address, stretch: Stretch, start: int, wanted: int) -> bool:
        """Adds parts until `wanted` are there; False when parts were changed meanwhile."""
        begin = stretch.record.first_part(start)
        while len(stretch.items) < wanted:
            if not await self._add_chunk(at, stretch, begin + len(stretch.items), begin + wanted):
                return False
        return True

    async def _add_chunk(self, at: Address, stretch: Stretch, position: int, end: int) -> bool:
        """Adds parts from `position` on, of the generation that the stretch began in, also if it was replaced."""
        record = stretch.record
        last = min(position + CHUNK_PARTS, end) - 1
        read = self._measured_chunk if record.kind == "fields" or record.is_skewed else self._plain_chunk
        items, values = await read(at, record, position, last)
        stretch.items.extend(items)
        stretch.values.extend(values)
        return bool(items)

    async def _measured_chunk(
        self, at: Address, record: Record, first: int, last: int
    ) -> tuple[list[bytes], list[bytes]]:
        """Parts of which some are very large: the script stops at its bound of bytes."""
        call = scripts.read_on(
            self._keys.workspace(at), record.kind, record.generation, record.edits, first, last, most_bytes=CHUNK_BYTES
        )
        reply = await self._connections.run(call)
        return (reply[1], reply[2]) if reply[0] else ([], [])

    async def _plain_chunk(self, at: Address, record: Record, first: int, last: int) -> tuple[list[bytes], list[bytes]]:
        keys = self._keys.workspace(at)
        part = scripts.part_keys(keys, record.kind, record.generation)[0]
        (generation, edits), retired_edits, items = await self._connections.together(
            [
                ("HMGET", keys.meta, "gen", "edits"),
                ("GET", keys.retired(record.generation)),
                ("LRANGE", part, first, last),
            ]
        )
        found = edits if generation == record.generation.encode() else retired_edits
        return (items, []) if found == str(record.edits).encode() else ([], [])

    def _record(self, at: Address, reply: list[Any]) -> Record:
        if reply[0] == 1:
            return Record.of_reply(reply[1], at)
        if not reply[1]:
            raise self._missing(at.workspace_id)
        raise refusals.expired(at, unpack(reply[1])["producer"])

    def touch_later(self, at: Address) -> None:
        """Notes the access off the path, at most once a minute per worker and workspace."""
        now = time.monotonic()
        if now - self._touched.get(at, -math.inf) < TOUCH_SECONDS:
            return
        if len(self._touched) > 10_000:
            self._touched.clear()
        self._touched[at] = now
        self._background.later(self._connections.run(scripts.touch(self._keys.workspace(at))))


async def _decoded(stretch: Stretch, start: int, stop: int | None) -> Any:
    record, items, values = stretch
    if record.bytes < INLINE_BYTES or sum(map(len, items)) + sum(map(len, values)) < INLINE_BYTES:
        return record.data(items, values, start, stop)
    return await on_cpu(lambda: record.data(items, values, start, stop))
