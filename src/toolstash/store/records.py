"""A workspace as Redis holds it: the meta hash read into a `Record`, and a payload's meta made ready to be written."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import astuple, dataclass
from dataclasses import replace as with_changes
from functools import lru_cache
from typing import Any, cast

import orjson

from toolstash.contracts import Address, Limits, WorkspaceMeta
from toolstash.errors import StoreUnavailableError
from toolstash.store.codec import Codec, decode, decode_all, pack, unpack
from toolstash.store.payload import SHAPES, Kind, Payload
from toolstash.store.primitives import ReplaceRule
from toolstash.wire import keys as layout
from toolstash.wire import scripts
from toolstash.wire.keys import PIECE_CHARS

SKEW_BYTES = 8_000_000  # what 2,000 rows of the largest size may weigh before chunks are measured row by row


@dataclass(slots=True)
class Record:
    """One moment of a workspace's meta, never changed. Not frozen, because freezing triples what it costs."""

    generation: str
    revision: str
    kind: Kind
    count: int
    parts: int
    bytes: int
    chars: int
    largest: int
    codec: Codec
    created: int
    accessed: int
    edits: int
    non_finite: int
    limits: Limits
    workspace_type: str
    producer: str
    info: bytes

    @classmethod
    def of_reply(cls, reply: list[Any], at: Address) -> Record:
        """Reads what the reading scripts return of meta.

        Raises:
            StoreUnavailableError: A newer version of the library wrote the workspace.
        """
        if reply[0] != layout.FORMAT.encode():
            raise StoreUnavailableError(
                f"Workspace '{at.workspace_id:.150}' is in a format ({reply[0]!r}) that this version cannot read.",
                suggested_action="Tell the user that all workers need the same version of toolstash.",
            )
        return _record_of(tuple(reply))

    @property
    def version(self) -> str:
        """`<generation>.<revision>`: changes with every write and never returns."""
        return f"{self.generation}.{self.revision}"

    @property
    def is_skewed(self) -> bool:
        """Whether some rows are so large that a chunk has to be measured row by row."""
        return self.largest * 2_000 > SKEW_BYTES

    def first_part(self, start: int) -> int:
        """The part that `start` (a row, a key, a code point) lies in."""
        return {"text": start // PIECE_CHARS, "value": 0}.get(self.kind, start)

    def parts_between(self, start: int, stop: int | None) -> int:
        """How many parts a stretch takes."""
        if self.kind == "value":
            return 1
        end = self.parts
        if stop is not None:
            end = min(end, math.ceil(stop / PIECE_CHARS) if self.kind == "text" else stop)
        return max(0, end - self.first_part(start))

    def data(self, items: list[bytes], values: list[bytes], start: int, stop: int | None) -> Any:
        """The decoded stretch."""
        if self.kind == "rows":
            return decode_all(items, self.codec)
        if self.kind == "fields":
            return dict(zip(decode_all(items, self.codec), decode_all(values, self.codec), strict=True))
        if self.kind == "value":
            return decode(items[0], self.codec)
        offset = start - self.first_part(start) * PIECE_CHARS
        text = "".join(decode_all(items, self.codec))
        return text[offset:] if stop is None else text[offset : offset + max(0, stop - start)]

    def meta(self, at: Address) -> WorkspaceMeta:
        """The public meta."""
        info = unpack(self.info)
        return WorkspaceMeta(
            workspace_id=at.workspace_id,
            workspace_type=self.workspace_type,
            data_shape=SHAPES[self.kind],
            producer_fn=self.producer,
            producer_kwargs=info["kwargs"],
            extra=info["extra"],
            ttl=info["ttl"],
            session_id=info["session"],
            lineage=tuple(info["lineage"]),
            limits=self.limits,
            index=info.get("index", "lazy"),
            item_count=self.count,
            chars=self.chars,
            non_finite=self.non_finite,
            version=self.version,
            created_at=self.created / 1e6,
            last_accessed_at=self.accessed / 1e6,
        )


@lru_cache(maxsize=2_048)
def _record_of(reply: tuple[bytes, ...]) -> Record:
    """Pages of one workspace mostly come with the meta that came before."""
    return Record(
        generation=reply[1].decode(),
        revision=reply[2].decode(),
        kind=cast(Kind, reply[3].decode()),
        count=int(reply[4]),
        parts=int(reply[5]),
        bytes=int(reply[6]),
        chars=int(reply[7]),
        largest=int(reply[8]),
        codec=cast(Codec, reply[9].decode()),
        created=int(reply[10]),
        accessed=int(reply[11]),
        edits=int(reply[12]),
        non_finite=int(reply[13]),
        limits=_limits(reply[14]),
        workspace_type=_word(reply[15]),
        producer=_word(reply[16]),
        info=reply[17],
    )


@lru_cache(maxsize=64)
def _limits(words: bytes) -> Limits:
    return Limits(*(int(word) if word.isdigit() else None for word in words.split()))


def _limit_words(limits: Limits) -> str:
    return " ".join("-" if bound is None else str(bound) for bound in astuple(limits))


@lru_cache(maxsize=1_024)
def _word(document: bytes) -> str:
    return unpack(document)


def commit_of(meta: WorkspaceMeta, payload: Payload, generation: str, rule: ReplaceRule | None) -> scripts.Commit:
    """What publishes a payload whose chunks have all been sent."""
    tally = payload.tally
    workspace_type, producer = pack(meta.workspace_type), pack(meta.producer_fn)
    return scripts.Commit(
        kind=payload.kind,
        generation=generation,
        parts=payload.parts,
        ttl_ms=None if meta.ttl is None else max(1, round(meta.ttl * 1000)),
        tombstone=pack({"producer": meta.producer_fn, "type": meta.workspace_type}),
        rule=None if rule is None else (pack(rule.workspace_type), [pack(p) for p in rule.producers]),
        ticket=("", "") if rule is None or rule.ticket is None else rule.ticket,
        max_workspaces=meta.limits.max_session_workspaces,
        max_bytes=meta.limits.max_session_bytes,
        fields={
            "format": layout.FORMAT,
            "count": payload.count,
            "bytes": tally.bytes,
            "chars": tally.chars,
            "largest": tally.largest,
            "codec": tally.codec,
            "nonfinite": tally.non_finite,
            "limits": _limit_words(meta.limits),
            "type": workspace_type,
            "producer": producer,
            "info": pack(
                {
                    "kwargs": dict(meta.producer_kwargs),
                    "extra": dict(meta.extra),
                    "ttl": meta.ttl,
                    "session": meta.session_id,
                    "lineage": list(meta.lineage),
                    "index": meta.index,
                }
            ),
        },
    )


def stored_meta(meta: WorkspaceMeta, payload: Payload, version: str, created_at: float) -> WorkspaceMeta:
    """The meta of what was just stored."""
    return with_changes(
        meta,
        data_shape=payload.shape,
        item_count=payload.count,
        chars=payload.tally.chars,
        non_finite=payload.tally.non_finite,
        version=version,
        created_at=created_at,
        last_accessed_at=created_at,
    )


def name_forms(name: str) -> set[bytes]:
    """How a field's name may stand in the hash: as orjson writes it, or with ASCII escapes."""
    forms = {json.dumps(name, ensure_ascii=True).encode("ascii")}
    with contextlib.suppress(orjson.JSONEncodeError):
        forms.add(orjson.dumps(name))
    return forms
