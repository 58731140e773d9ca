"""Questions answered by the search module, where a workspace has an index and the index answers exactly.

An index belongs to one version of a workspace and to one view of its texts. A reply counts only if the index still has
a document for every row, and if the workspace is still that version when its rows are read: then nothing had expired,
was evicted, rejected, replaced or half built. In all other cases the answer is None, and Python gives it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolstash.contracts import Address, WorkspaceMeta
from toolstash.errors import StoreUnavailableError
from toolstash.query.index import IndexShape, TextView
from toolstash.query.plan import plan
from toolstash.query.questions import Pipe, Question, Search
from toolstash.query.reply import Plan, Reply
from toolstash.query.steps import Searched
from toolstash.query.work import Work
from toolstash.store.base import Check
from toolstash.store.codec import decode_all, unpack
from toolstash.store.cpu import on_cpu
from toolstash.store.primitives import Reading
from toolstash.store.records import Record
from toolstash.wire import scripts, search
from toolstash.wire.connection import Connections
from toolstash.wire.faults import CommandRefused
from toolstash.wire.keys import Keys

logger = logging.getLogger("toolstash")

SEARCH_SECONDS = 5.0
ROWS_BYTES = 4_000_000
INLINE_BYTES = 20_000
"""Answers of so few rows are worded in about a millisecond; a thread would only add to it."""

NO_TEXT = "none"
"""The view of an index without texts."""

REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Index:
    """One index that is known: of which view and version it is, and how many rows it has."""

    view: str
    build: str
    version: str
    rows: int

    @staticmethod
    def of_entries(entries: Sequence[bytes]) -> list[Index]:
        """Reads the hash of indexes: views and entries by turns. Entries in another form are another version's."""
        found: list[Index] = []
        for view, entry in zip(entries[::2], entries[1::2], strict=True):
            words = entry.decode().split(" ")
            if len(words) == 3:
                found.append(Index(view.decode(), words[0], words[1], int(words[2])))
        return found


class SlowIndexError(Exception):
    """No answer in time: the server may still be at work on it."""


class BrokenIndexError(Exception):
    """The index has lost documents or what is known of it, or is gone."""

    def __init__(self, index: Index) -> None:
        super().__init__(index.build)
        self.index = index


class NoSearchError(Exception):
    """The server does not know the search commands any more."""


@dataclass(frozen=True, slots=True)
class Found:
    """A workspace at one moment, with its indexes."""

    record: Record
    indexes: Sequence[Index]

    def ready(self, view: str) -> list[Index]:
        """The indexes of this version, the one of the view first."""
        ready = [index for index in self.indexes if index.version == self.record.version]
        return sorted(ready, key=lambda index: index.view != view)

    @property
    def stale(self) -> list[Index]:
        """The indexes of other versions."""
        return [index for index in self.indexes if index.version != self.record.version]


def view_name(text: TextView | None) -> str:
    """A short name for the texts of an index: in a key, and the same in every worker."""
    if text is None:
        return NO_TEXT
    if text.fields is None:
        return "all"
    return hashlib.sha256(json.dumps(text.fields).encode()).hexdigest()[:12]


def text_wanted(question: Question[Any]) -> TextView | None:
    """The texts that the question searches; None for a question without words."""
    if isinstance(question, Search):
        return TextView.of(question.fields)
    if isinstance(question, Pipe):
        for _, _, step in question.pipeline.steps:
            if isinstance(step.asks, Searched):
                return TextView.of(step.asks.fields)
    return None


def is_usual(question: Question[Any]) -> bool:
    """Whether the question searches the fields that are always searched: a model's own choice gets no index."""
    if isinstance(question, Search):
        return question.is_usual
    if isinstance(question, Pipe):
        return all(step.asks.is_usual for _, _, step in question.pipeline.steps if isinstance(step.asks, Searched))
    return True


class IndexReader:
    """Asks indexes for one store."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        self._shapes: OrderedDict[str, IndexShape] = OrderedDict()
        self._last: OrderedDict[Address, Sequence[Index]] = OrderedDict()

    def last_known(self, at: Address) -> Sequence[Index]:
        """The indexes that answered last: mostly they are still there, which saves a look."""
        return self._last.get(at, ())

    async def find(self, at: Address) -> Found | None:
        """The workspace and its indexes; None if it is gone (or no list), which the usual way explains."""
        reply = await self._connections.run(scripts.find_indexes(self._keys.workspace(at)))
        if reply[0] != 1:
            return None
        return Found(Record.of_reply(reply[1], at), Index.of_entries(reply[2]))

    async def is_ready(self, at: Address, text: TextView | None) -> bool:
        """Whether there is an index of these texts of the present version."""
        found = await self.find(at)
        return found is not None and any(index.view == view_name(text) for index in found.ready(view_name(text)))

    async def answer(
        self, at: Address, indexes: Sequence[Index], question: Question[Any], check: Check
    ) -> Reading | None:
        """The answer of the first index that can give it exactly.

        Raises:
            BrokenIndexError: The index is not whole.
            SlowIndexError: There was no answer in time.
            NoSearchError: The server has no search module.
        """
        for index in indexes:
            shape = await self._shape(at, index)
            made = None if shape is None else plan(question, shape)
            if made is not None:
                try:
                    reading = await self._ask(at, index, made, check, is_short=not isinstance(question, Pipe))
                except BrokenIndexError:
                    self._last.pop(at, None)
                    raise
                remember(self._last, at, indexes if reading is not None else ())
                return reading
        return None

    async def _shape(self, at: Address, index: Index) -> IndexShape | None:
        """What the index holds; None where another version of the library wrote it."""
        shape = self._shapes.get(index.build)
        if shape is None:
            document = await self._connections.command("GET", self._keys.workspace(at).shape(index.build))
            if document is None:
                raise BrokenIndexError(index)
            try:
                shape = IndexShape.from_json(unpack(document))
            except (ValueError, LookupError, TypeError, AttributeError):
                return None
            remember(self._shapes, index.build, shape)
        return shape

    async def _ask(self, at: Address, index: Index, made: Plan, check: Check, *, is_short: bool) -> Reading | None:
        reply = await self._reply(at, index, made)
        if reply is None:
            return None
        read = await self._rows(at, index, made.positions(reply))
        if read is None:
            return None
        meta, documents, record = read
        check(meta)
        work = Work()

        def answer() -> Any | None:
            return made.answer(reply, decode_all(documents, record.codec), work)

        try:
            is_inline = is_short and sum(map(len, documents)) < INLINE_BYTES
            found = answer() if is_inline else await on_cpu(answer)
        finally:
            work.stop()
        return None if found is None else Reading(meta, found)

    async def _reply(self, at: Address, index: Index, made: Plan) -> Reply | None:
        """What the index says, if it has all rows. The count comes last: documents go, but never come back."""
        keys = self._keys.workspace(at)
        name = keys.index(index.build)
        try:
            replies = await self._connections.pipelined(
                keys.meta, [search.aggregate(name, made.words), search.info(name)], seconds=SEARCH_SECONDS
            )
        except StoreUnavailableError as error:
            raise SlowIndexError from error
        for reply in replies:
            if isinstance(reply, CommandRefused):
                if search.is_unknown_command(reply.message):
                    raise NoSearchError
                if search.is_no_index(reply.message):
                    raise BrokenIndexError(index)
                logger.info("a search index refused a question: %s", reply.message[:200])
                return None
        if search.document_count(replies[1]) != index.rows:
            raise BrokenIndexError(index)
        return Reply(*search.aggregate_reply(replies[0]))

    async def _rows(
        self, at: Address, index: Index, positions: Sequence[int]
    ) -> tuple[WorkspaceMeta, list[bytes], Record] | None:
        """The rows at these positions, of the version that was asked."""
        documents: list[bytes] = []
        while True:
            left = positions[len(documents) :]
            call = scripts.rows_at(
                self._keys.workspace(at), index.version, index.view, index.build, left, most_bytes=ROWS_BYTES
            )
            reply = await self._connections.run(call)
            if reply[0] != 1:
                return None
            documents += reply[2]
            if len(documents) >= len(positions):
                record = Record.of_reply(reply[1], at)
                return record.meta(at), documents, record


def remember(known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Notes something, and forgets what was noted longest ago."""
    known[key] = value
    known.move_to_end(key)
    while len(known) > REMEMBERED:
        known.popitem(last=False)
