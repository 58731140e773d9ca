"""What is to be stored, as chunks of encoded parts.

A payload knows its kind, encodes itself off the event loop in bounded slices, counts as it goes, and refuses to
grow above the limits. A store only has to write the chunks down and, when they have ended, publish them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast

from toolstash.contracts import DataShape, Limits
from toolstash.errors import UnstorableValueError
from toolstash.store.codec import Tally, decode, encode, encode_many
from toolstash.store.cpu import on_cpu
from toolstash.store.refusals import check_limits
from toolstash.store.sync_rows import MOST_ROWS, MOST_SECONDS, batches_of
from toolstash.store.values import is_rows, join_surrogates, key_name, unwrap
from toolstash.wire.keys import PIECE_CHARS

Kind = Literal["rows", "fields", "text", "value"]

CHUNK_ROWS = MOST_ROWS
CHUNK_BYTES = 1_000_000
SAMPLE_ROWS = 100
SAMPLE_CHARS = 2_000

SHAPES: dict[Kind, DataShape] = {"rows": "list", "fields": "dict", "text": "scalar", "value": "scalar"}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Encoded parts in order: rows, pieces of a text, or names and values in turn for a dict."""

    documents: list[bytes]
    parts: int


class Payload:
    """One result on its way into a store.

    `count` (rows, keys, or 1) and `parts` (documents to be found again) are complete once `chunks()` has ended,
    and so are `tally` and `sample`: the first 100 rows, the first 100 fields, the first 2,000 characters, or the value.
    """

    def __init__(self, value: Any) -> None:
        value = _opened(value)  # which costs nothing for lists, dicts and texts; for others, `Payload.of` has done it
        self.kind: Kind = _kind_of(value)
        self.shape: DataShape = SHAPES[self.kind]
        self.is_stream = is_rows(value)
        self.tally = Tally()
        self.count = 0
        self.parts = 0
        self.sample: Any = None
        self._value = value
        self._limits = Limits()

    @classmethod
    async def of(cls, value: Any) -> Payload:
        """A payload of any value: frames, arrays and models are taken apart off the event loop.

        Raises:
            UnstorableValueError: The value has no JSON form.
        """
        return cls(await on_cpu(lambda: _opened(value)))

    async def chunks(self, limits: Limits = Limits()) -> AsyncGenerator[Chunk]:
        """The encoded parts, at most 2,000 and about 1 MB at a time. Can be read once.

        Raises:
            UnstorableValueError: A value has no JSON form.
            PayloadTooLargeError: Above `limits`.
        """
        self._limits = limits
        if self.kind == "rows":
            source = self._row_chunks()
        elif self.kind == "fields":
            source = self._field_chunks()
        else:
            source = self._scalar_chunks()
        async with aclosing(source):
            async for chunk in source:
                self.parts += chunk.parts
                yield chunk
        if self.kind in ("text", "value"):
            self.count = 1

    async def _row_chunks(self) -> AsyncGenerator[Chunk]:
        self.sample = []
        if not self.is_stream:
            check_limits(self._limits, len(self._value), 0)
        async with aclosing(_batches(self._value)) as batches:
            async for rows in batches:
                for documents in await on_cpu(lambda rows=rows: self._encode_rows(rows)):
                    yield Chunk(documents, len(documents))

    def _encode_rows(self, rows: Sequence[Any]) -> list[list[bytes]]:
        documents = encode_many(rows, self.tally, first_row=self.count)
        self.count += len(documents)
        check_limits(self._limits, self.count, self.tally.bytes)
        missing = SAMPLE_ROWS - len(self.sample)
        self.sample += [decode(document, self.tally.codec) for document in documents[:missing]]
        return _chunks_of(documents)

    async def _field_chunks(self) -> AsyncGenerator[Chunk]:
        self.sample = {}
        check_limits(self._limits, len(self._value), 0)
        seen: set[str] = set()
        items = iter(cast(Mapping[Any, Any], self._value).items())
        while batch := list(islice(items, CHUNK_ROWS // 2)):
            for documents in await on_cpu(lambda batch=batch: self._encode_fields(batch, seen)):
                yield Chunk(documents, len(documents) // 2)

    def _encode_fields(self, items: Sequence[tuple[Any, Any]], seen: set[str]) -> list[list[bytes]]:
        encoded: list[list[bytes]] = []
        size = CHUNK_BYTES
        for key, item in items:
            name = key_name(key)
            if name in seen:
                raise UnstorableValueError(
                    f"The result cannot be stored: two keys have the same JSON name '{name:.80}'.",
                    field=name[:80],
                )
            seen.add(name)
            value = encode(item, self.tally)
            documents = [encode(name, self.tally), value]
            self.count += 1
            if size >= CHUNK_BYTES:
                encoded.append([])
                size = 0
                check_limits(self._limits, self.count, self.tally.bytes)
            encoded[-1] += documents
            size += len(documents[0]) + len(documents[1])
            if len(self.sample) < SAMPLE_ROWS:
                self.sample[name] = decode(value, self.tally.codec)
        check_limits(self._limits, self.count, self.tally.bytes)
        return encoded

    async def _scalar_chunks(self) -> AsyncGenerator[Chunk]:
        if self.kind == "value":
            document = await on_cpu(lambda: encode(self._value, self.tally))
            self.sample = decode(document, self.tally.codec)
            check_limits(self._limits, 1, len(document))
            yield Chunk([document], 1)
            return
        text = await on_cpu(lambda: join_surrogates(self._value))
        check_limits(self._limits, 1, len(text))
        self.sample = text[:SAMPLE_CHARS]
        step = PIECE_CHARS * (CHUNK_BYTES // PIECE_CHARS)
        for start in range(0, len(text), step):
            pieces = [text[at : at + PIECE_CHARS] for at in range(start, min(start + step, len(text)), PIECE_CHARS)]
            documents = await on_cpu(lambda pieces=pieces: [encode(piece, self.tally) for piece in pieces])
            check_limits(self._limits, 1, self.tally.bytes)
            yield Chunk(documents, len(documents))
        self.tally.chars = len(text)


def _opened(value: Any) -> Any:
    """The value as rows that come one by one, or as list, dict, str or another plain value."""
    if isinstance(value, str):
        return str(value)
    if is_rows(value):
        return value
    if hasattr(value, "__aiter__"):
        return aiter(value)
    while not isinstance(value, (list, dict, str, int, float)) and value is not None and not _is_plain_tuple(value):
        try:
            value = unwrap(value)
        except TypeError as error:
            raise UnstorableValueError(
                f"The result cannot be stored: a {type(value).__name__} has no JSON form."
            ) from error
    return cast(Any, value)


def _chunks_of(documents: list[bytes]) -> list[list[bytes]]:
    """The documents in stretches of about 1 MB."""
    if sum(map(len, documents)) <= CHUNK_BYTES:
        return [documents] if documents else []
    chunks: list[list[bytes]] = []
    size = CHUNK_BYTES
    for document in documents:
        if size >= CHUNK_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append(document)
        size += len(document)
    return chunks


def _is_plain_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and not hasattr(cast(Any, value), "_fields")


def _kind_of(value: Any) -> Kind:
    if isinstance(value, (list, tuple)) or is_rows(value):
        return "rows"
    if isinstance(value, dict):
        return "fields"
    return "text" if isinstance(value, str) else "value"


async def _batches(rows: Any) -> AsyncGenerator[Sequence[Any]]:
    """Rows in batches: slices of a list, or what a stream gives within half a second."""
    if isinstance(rows, (list, tuple)):
        listed = cast(Sequence[Any], rows)
        for start in range(0, len(listed), CHUNK_ROWS):
            yield listed[start : start + CHUNK_ROWS]
    elif hasattr(rows, "__anext__"):
        async with aclosing(_async_batches(rows)) as batches:
            async for batch in batches:
                yield batch
    else:
        async with aclosing(batches_of(rows)) as batches:
            async for batch in batches:
                yield batch


async def _async_batches(rows: AsyncIterator[Any]) -> AsyncGenerator[list[Any]]:
    try:
        batch: list[Any] = []
        full_at = time.monotonic() + MOST_SECONDS
        async for row in rows:
            batch.append(row)
            if len(batch) >= CHUNK_ROWS or time.monotonic() >= full_at:
                yield batch
                batch, full_at = [], time.monotonic() + MOST_SECONDS
        if batch:
            yield batch
    finally:
        close = getattr(rows, "aclose", None)
        if close is not None:
            await close()
