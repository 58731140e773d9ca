"""Rows as JSON bytes and back.

orjson does the work. A row that it cannot keep exactly (integers beyond 64 bits, lone surrogates) goes through the
standard json module with ASCII escapes, and the workspace is marked so that it is read back the same way: orjson
would read 2^64 as a float.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from toolstash.store.values import Normalizer, count_non_finite, unwrap

Codec = Literal["orjson", "json"]

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


@dataclass(slots=True)
class Tally:
    """What was learned while encoding. `bytes` and `chars` are of the JSON documents, `chars` in code points."""

    bytes: int = 0
    chars: int = 0
    largest: int = 0
    non_finite: int = 0
    codec: Codec = "orjson"

    def weigh(self, document: bytes) -> None:
        """Counts one document."""
        size = len(document)
        self.bytes += size
        self.chars += size if document.isascii() else len(document.decode())
        if size > self.largest:
            self.largest = size


def encode(value: Any, tally: Tally, *, row: int | None = None) -> bytes:
    """One value as JSON, counted in `tally`.

    Raises:
        UnstorableValueError: It has no JSON form; names `row` and the field.
    """
    try:
        document = orjson.dumps(value, unwrap, _OPTIONS)
    except (orjson.JSONEncodeError, RecursionError):
        document = _encode_slowly(value, tally, row)
    else:
        if b"null" in document:
            tally.non_finite += count_non_finite(value)
    tally.weigh(document)
    return document


def encode_many(values: Sequence[Any], tally: Tally, *, first_row: int) -> list[bytes]:
    """Many values as JSON; rows are numbered from `first_row` on.

    Raises:
        UnstorableValueError: One has no JSON form; names the row and the field.
    """
    try:
        documents = [orjson.dumps(value, unwrap, _OPTIONS) for value in values]
    except (orjson.JSONEncodeError, RecursionError):
        return [encode(value, tally, row=first_row + place) for place, value in enumerate(values)]
    joined = b"".join(documents)
    tally.bytes += len(joined)
    tally.chars += len(joined) if joined.isascii() else len(joined.decode())
    tally.largest = max(tally.largest, max(map(len, documents), default=0))
    if b"null" in joined:
        pairs = zip(values, documents, strict=True)
        tally.non_finite += sum(count_non_finite(value) for value, document in pairs if b"null" in document)
    return documents


def _encode_slowly(value: Any, tally: Tally, row: int | None) -> bytes:
    normalizer = Normalizer(row)
    plain = normalizer.normalize(value)
    tally.non_finite += normalizer.non_finite
    try:
        return orjson.dumps(plain)
    except orjson.JSONEncodeError:
        tally.codec = "json"
        return json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def decode(document: bytes, codec: Codec) -> Any:
    """The value that `encode` made the document of."""
    return orjson.loads(document) if codec == "orjson" else json.loads(document)


def decode_all(documents: Iterable[bytes], codec: Codec) -> list[Any]:
    """The values of many documents."""
    loads = orjson.loads if codec == "orjson" else json.loads
    return [loads(document) for document in documents]


def plain_value(value: Any) -> Any:
    """A value in the form that it would be read back in.

    Raises:
        UnstorableValueError: It has no JSON form.
    """
    tally = Tally()
    return decode(encode(value, tally), tally.codec)


def pack(value: Any) -> bytes:
    """Any storable value as one document that knows its own codec; equal values give equal bytes."""
    tally = Tally()
    document = encode(value, tally)
    return (b"j" if tally.codec == "json" else b"o") + document


def unpack(document: bytes) -> Any:
    """The value that `pack` made the document of."""
    return decode(document[1:], "json" if document[:1] == b"j" else "orjson")
