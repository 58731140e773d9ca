"""What a worker remembers of workspaces: rows as they are stored, and columns and texts that questions made of them.

A snapshot belongs to one version of a workspace, and versions never come again, so it cannot be stale.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakValueDictionary

from toolstash.contracts import Address
from toolstash.query.haystack import Haystack
from toolstash.query.table import Table, folding
from toolstash.store.codec import Codec, decode
from toolstash.store.projection import columns_of

SNAPSHOT_BYTES = 256_000_000
"""What one store remembers in one process; the workspaces that were asked last stay."""

MOST_SNAPSHOTS = 1_000
_SLICE = 2_000


class Snapshot(Table):
    """All rows of one version, encoded; decoded as far as questions need it."""

    def __init__(self, documents: Sequence[bytes], codec: Codec, document_bytes: int) -> None:
        super().__init__()
        self._documents = documents
        self._codec: Codec = codec
        self._document_bytes = document_bytes + 40 * len(documents)

    def __len__(self) -> int:
        return len(self._documents)

    def rows_at(self, positions: Sequence[int]) -> list[Any]:
        documents, codec = self._documents, self._codec
        return [decode(documents[position], codec) for position in positions]

    def prepare(self, paths: Iterable[str]) -> None:
        missing = [path for path in paths if path not in self._columns]
        if missing:
            self._columns |= self._make_columns(missing)

    def make_column(self, path: str) -> Sequence[Any]:
        return self._make_columns([path])[path]

    def _make_columns(self, paths: Sequence[str]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {path: [] for path in paths}
        with _without_collections():
            for start in range(0, len(self._documents), _SLICE):
                part = columns_of(self._documents[start : start + _SLICE], paths, self._codec)
                for path, values in part.items():
                    columns[path] += values
        return columns

    def make_haystack(self, fields: Sequence[str] | None, *, case_sensitive: bool) -> Haystack:
        if fields is not None or self._codec == "json":
            return super().make_haystack(fields, case_sensitive=case_sensitive)
        return Haystack(self._documents, folding(case_sensitive))

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return self._document_bytes + self.derived_bytes


_pauses: list[None] = []


def _collect_again() -> None:
    """A fork does not take along the thread that would end a pause."""
    if _pauses:
        _pauses.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_collect_again)


@contextmanager
def _without_collections() -> Generator[None]:
    """No garbage collection meanwhile: lists by the hundred thousand would start one that stops every thread."""
    was_on = gc.isenabled()
    gc.disable()
    if was_on:
        _pauses.append(None)
    try:
        yield
    finally:
        if was_on:
            _pauses.pop()
            gc.enable()


class Snapshots:
    """The snapshots of one store, within a bound of bytes."""

    def __init__(self, most_bytes: int = SNAPSHOT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[Address, tuple[str, Snapshot]] = OrderedDict()
        self._sizes: dict[Address, int] = {}
        self._asked: set[Address] = set()
        self._lock = threading.Lock()
        self._loading: WeakValueDictionary[tuple[int, Address], asyncio.Lock] = WeakValueDictionary()

    def get(self, at: Address, version: str) -> Snapshot | None:
        """The snapshot of that version, if it is there."""
        with self._lock:
            held = self._held.get(at)
            if held is None or held[0] != version:
                return None
            self._use(at)
            return held[1]

    def put(self, at: Address, version: str, snapshot: Snapshot) -> None:
        """Remembers a snapshot in the place of an older one of the same workspace."""
        with self._lock:
            self._held[at] = (version, snapshot)
            self._use(at)

    def forget(self, at: Address) -> None:
        """Lets go of a workspace that is gone."""
        with self._lock:
            self._held.pop(at, None)
            self._sizes.pop(at, None)

    def clear(self) -> None:
        """Lets go of everything."""
        with self._lock:
            self._held.clear()
            self._sizes.clear()

    @property
    def bytes(self) -> int:
        """About how much memory all of it takes."""
        with self._lock:
            return sum(snapshot.bytes for _, snapshot in self._held.values())

    def _use(self, at: Address) -> None:
        self._held.move_to_end(at)
        self._asked.add(at)

    def trim(self) -> None:
        """Forgets until what is held is within the bound: what was asked longest ago goes first."""
        with self._lock:
            self._sizes |= {at: self._held[at][1].bytes for at in self._asked if at in self._held}
            self._asked.clear()
            total = sum(self._sizes.values())
            while self._held and (total > self._most_bytes or len(self._held) > MOST_SNAPSHOTS):
                at, (_, oldest) = next(iter(self._held.items()))
                total -= self._sizes.get(at, 0)
                if len(self._held) == 1 and oldest.derived_bytes:
                    oldest.forget_derived()
                    self._sizes[at] = oldest.bytes
                    total += self._sizes[at]
                else:
                    del self._held[at]
                    self._sizes.pop(at, None)

    @asynccontextmanager
    async def loading(self, at: Address) -> AsyncGenerator[None]:
        """One reader at a time for each workspace and event loop, so that its rows are fetched once."""
        lock = self._loading.setdefault((id(asyncio.get_running_loop()), at), asyncio.Lock())
        async with lock:
            yield
