"""When indexes are asked, built and taken away.

The first question of a workspace is answered by Python; if the workspace is large enough for an index to pay, one is
built meanwhile, and the next questions go to it. A changed workspace gets a new one when it is asked a second time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from toolstash.contracts import Address, WorkspaceMeta
from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.query.index import TextView
from toolstash.query.plan import can_plan
from toolstash.query.questions import Question
from toolstash.store.base import Check
from toolstash.store.index_builder import IndexBuilder, ReadTable, TooDearError
from toolstash.store.primitives import Reading
from toolstash.store.search_ability import Ability, probe
from toolstash.store.search_index import (
    NO_TEXT,
    BrokenIndexError,
    IndexReader,
    NoSearchError,
    SlowIndexError,
    is_usual,
    remember,
    text_wanted,
    view_name,
)
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys

logger = logging.getLogger("toolstash")

SEARCHED_FROM_ROWS = 5_000
"""From how many rows on a search brings about an index: below, Python is fast enough (docs/search-index.md)."""

ASKED_FROM_ROWS = 50_000
"""The same for questions without words: a worker that has fetched the rows answers them about as fast itself."""

WAITING_SECONDS = 0.1

SLOW_SECONDS = 60.0
"""How long Python answers after an index did not in time: the server cannot be stopped, so it is not asked again."""

DEAR_SECONDS = 3_600.0
"""How long a worker waits after an index turned out too large."""

TRY_AGAIN_SECONDS = 60.0
"""How long a worker waits before it builds an index of the same version again: the first was refused, or is gone."""

SWEEP_SECONDS = 300.0
"""A worker that asks questions sweeps at its first one and then this often: builders die without a word."""

_View = tuple[Address, str]


class IndexLife:
    """The search indexes of one store."""

    def __init__(self, connections: Connections, keys: Keys, read_table: ReadTable) -> None:
        self._connections = connections
        self._keys = keys
        self._reader = IndexReader(connections, keys)
        self._builder = IndexBuilder(connections, keys, self._reader, read_table)
        self._ability: Ability | None = None
        self._is_probed = False
        self._probing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._slow: OrderedDict[_View, float] = OrderedDict()
        self._tasks: dict[asyncio.Task[Any], bool] = {}
        self._swept_at = -SWEEP_SECONDS
        self._ready: OrderedDict[_View, str] = OrderedDict()
        self._tried: OrderedDict[_View, tuple[str, float]] = OrderedDict()
        self._asked: OrderedDict[_View, str] = OrderedDict()

    async def ability(self) -> Ability | None:
        """What the server's search can do, found out once; None for nothing, and while the server does not answer."""
        lock = self._probing.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if not self._is_probed:
                try:
                    self._ability = await probe(self._connections, self._keys)
                except StoreUnavailableError:
                    return None
                self._is_probed = True
        if self._ability is not None and time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            self._later(self._builder.sweep())
        return self._ability

    async def answer(self, at: Address, question: Question[Any], check: Check) -> Reading | None:
        """The answer of an index; None where Python has to answer."""
        view = (at, view_name(text_wanted(question)))
        is_slow = time.monotonic() - self._slow.get(view, -SLOW_SECONDS) < SLOW_SECONDS
        if is_slow or not can_plan(question) or await self.ability() is None:
            return None
        try:
            return await self._answer(at, question, check)
        except SlowIndexError:
            remember(self._slow, view, time.monotonic())
        except BrokenIndexError as broken:
            self._ready.pop(view, None)
            self._later(self._builder.retire(at, broken.index))
        except NoSearchError:
            self._is_probed = False  # another server has taken over
        return None

    async def _answer(self, at: Address, question: Question[Any], check: Check) -> Reading | None:
        last = self._reader.last_known(at)
        try:
            reading = await self._reader.answer(at, last, question, check)
        except BrokenIndexError:
            last, reading = (), None  # another worker may have put a new one in its place
        if reading is not None:
            return reading
        found = await self._reader.find(at)
        if found is None:
            return None
        check(found.record.meta(at))
        if found.stale:
            self._later(self._builder.clean(at))
        view = view_name(text_wanted(question))
        ready = found.ready(view)
        is_ready = any(index.view == view or view == NO_TEXT for index in ready)
        remember(self._ready, (at, view), found.record.version if is_ready else "")
        return await self._reader.answer(at, ready, question, check) if ready != list(last) else None

    def python_answered(self, at: Address, meta: WorkspaceMeta, question: Question[Any]) -> None:
        """Considers an index, so that the next question of the kind need not go to Python."""
        if not (self._is_probed and self._ability is not None and can_plan(question)):
            return
        text = text_wanted(question)
        from_rows = ASKED_FROM_ROWS if text is None else SEARCHED_FROM_ROWS
        is_large = meta.item_count >= (1 if meta.index == "eager" else from_rows)
        if meta.index == "never" or not is_large or not is_usual(question):
            return
        view = (at, view_name(text))
        is_first = self._asked.get(view) != meta.version
        remember(self._asked, view, meta.version)
        is_changed = not meta.version.endswith(".0")
        if self._is_lacking(view, meta.version) and not (is_changed and is_first):
            self.build_later(at, meta.version, text)

    def _is_lacking(self, view: _View, version: str) -> bool:
        """Whether there is no index of the version, and none was just tried; any serves a question without words."""
        at, name = view
        tries = [tried for (other, text), tried in self._tried.items() if other == at and name in (text, NO_TEXT)]
        too_soon = time.monotonic() - TRY_AGAIN_SECONDS
        return self._ready.get(view) != version and not any(
            tried == version and when > too_soon for tried, when in tries
        )

    def build_later(self, at: Address, version: str, text: TextView | None) -> None:
        """Builds an index in the background."""
        remember(self._tried, (at, view_name(text)), (version, time.monotonic()))
        self._later(self.build(at, text, waits=False), is_building=True)

    async def build(self, at: Address, text: TextView | None, *, waits: bool = True) -> bool:
        """Builds an index now, or waits for the worker that does; False where there will be none.

        Raises:
            StoreUnavailableError: The server does not answer, or refuses a command.
            WorkspaceNotFoundError, WorkspaceShapeMismatchError: There is no such list.
        """
        ability = await self.ability()
        if ability is None:
            return False
        while not await self._reader.is_ready(at, text):
            try:
                if await self._builder.build(at, text, ability):
                    return True
            except TooDearError as error:
                logger.warning("%s (%s)", error, at.workspace_id)
                until = time.monotonic() + DEAR_SECONDS - TRY_AGAIN_SECONDS
                remember(self._tried, (at, view_name(text)), (error.version, until))
                return False
            if not waits or not await self._builder.is_building(at, text):
                return await self._reader.is_ready(at, text)
            await anyio.sleep(WAITING_SECONDS)
        return True

    def replaced(self, gone: Sequence[Address]) -> None:
        """Takes away the indexes that workspaces had which were replaced or dropped."""
        for at in gone:
            self._later(self._clean(at))

    async def _clean(self, at: Address) -> None:
        if await self.ability() is not None:
            await self._builder.clean(at)

    async def sweep(self) -> None:
        """Takes away indexes whose workspaces are gone."""
        if await self.ability() is not None:
            await self._builder.sweep()

    async def settle(self) -> None:
        """Ends what is under way in this event loop: indexes that are not finished are taken away again."""
        loop = asyncio.get_running_loop()
        ours = [task for task in self._tasks if task.get_loop() is loop]
        for task in ours:
            if self._tasks[task]:
                task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)

    def _later(self, work: Coroutine[Any, Any, Any], *, is_building: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = is_building
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ToolstashError):
            logger.info("a search index was not built or not removed: %s", error)
        elif error is not None:
            logger.error("a search index was not built or not removed", exc_info=error)
