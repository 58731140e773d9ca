"""The Lua scripts, each a file in `lua/` with a typed stub here.

Every stub turns Python values into KEYS and ARGV and the reply back into Python values; no other file knows
their order. A script that writes carries an operation id and answers a repeat with the first result, so that a
command whose reply was lost may be sent again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from string import Template
from typing import Any, NamedTuple

from toolstash.wire import keys as layout
from toolstash.wire.keys import WorkspaceKeys

META_FIELDS = (
    "format",
    "gen",
    "rev",
    "kind",
    "count",
    "parts",
    "bytes",
    "chars",
    "largest",
    "codec",
    "created",
    "accessed",
    "edits",
    "nonfinite",
    "limits",
    "type",
    "producer",
    "info",
)
"""What the scripts return of meta, in their order."""

_PLACES = {
    "META_FIELDS": ", ".join(f"'{name}'" for name in META_FIELDS),
    "FORMAT": layout.FORMAT,
    "PIECE_CHARS": layout.PIECE_CHARS,
    "OPS_MS": layout.OPS_MS,
    "GONE_MS": layout.GONE_MS,
    "RETIRED_MS": layout.RETIRED_MS,
    "LEASE_MS": layout.LEASE_MS,
    "UNFINISHED_INDEX_MS": layout.UNFINISHED_INDEX_MS,
    "MOST_EVENTS": layout.MOST_EVENTS,
}
"""What stands for `$NAME` in the scripts, so that Python and Lua cannot differ."""


@dataclass(frozen=True)
class Script:
    """One Lua script; `sha` is what the server knows it by. `prelude` names a file of functions that comes first."""

    name: str
    prelude: str = ""
    body: str = field(init=False, repr=False)
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        text = (_lua(self.prelude) if self.prelude else "") + _lua(self.name)
        body = Template(text).substitute(_PLACES)
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "sha", hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest())


class ScriptCall(NamedTuple):
    """A script with its keys and arguments, ready to be sent."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Any]


@lru_cache
def _lua(name: str) -> str:
    return resources.files("toolstash.wire").joinpath("lua", f"{name}.lua").read_text("utf-8")


PUT = Script("put")
PUT_FIELDS = Script("put_fields")
KEEP = Script("keep")
DISCARD = Script("discard")
READ = Script("read", prelude="reading")
READ_FIELDS = Script("read_fields", prelude="reading")
TOUCH = Script("touch", prelude="writing")
COMMIT = Script("commit", prelude="writing")
MUTATE = Script("mutate", prelude="writing")
DROP = Script("drop", prelude="writing")
ALIVE = Script("alive")
READ_ON = Script("read_on", prelude="reading")
SWEEP = Script("sweep", prelude="writing")
REGISTER_SESSION = Script("register_session", prelude="writing")
FIND_INDEXES = Script("find_indexes", prelude="reading")
ROWS_AT = Script("rows_at", prelude="reading")
BEGIN_INDEX = Script("begin_index")
PUT_DOCUMENTS = Script("put_documents", prelude="writing")
KEEP_DOCUMENTS = Script("keep_documents")
PUBLISH_INDEX = Script("publish_index", prelude="writing")
RETIRE_INDEX = Script("retire_index")
RELEASE = Script("release")
JOIN_FLIGHT = Script("join_flight")
KEEP_FLIGHT = Script("keep_flight")
LAND_FLIGHT = Script("land_flight")
WEIGH = Script("weigh")


def new_operation() -> str:
    """An id that tells a repeated command from a new one."""
    return secrets.token_hex(8)


def part_keys(at: WorkspaceKeys, kind: str, generation: str) -> list[str]:
    """The keys that hold the data of one generation: names and values for a dict, else one list."""
    if kind == "fields":
        return [f"{at.stem}names:{generation}", f"{at.stem}fields:{generation}"]
    return [f"{at.stem}{'text' if kind == 'text' else 'rows'}:{generation}"]


def put(at: WorkspaceKeys, kind: str, generation: str, first: int, values: Sequence[bytes]) -> ScriptCall:
    """Adds a chunk to an unpublished generation. Reply: its length so far, or -1 when earlier chunks are gone.

    `values` alternate between names and values for a dict; `first` counts what was put before.
    """
    script = PUT_FIELDS if kind == "fields" else PUT
    return ScriptCall(script, part_keys(at, kind, generation), [first, layout.UNFINISHED_MS, *values])


def keep(at: WorkspaceKeys, kind: str, generation: str) -> ScriptCall:
    """Renews the life of an unpublished generation."""
    return ScriptCall(KEEP, part_keys(at, kind, generation), [layout.UNFINISHED_MS])


def discard(at: WorkspaceKeys, kind: str, generation: str) -> ScriptCall:
    """Takes away a generation that will not be published. Reply: 1; 0 if it is published."""
    keys = (at.meta, at.retired(generation), *part_keys(at, kind, generation))
    return ScriptCall(DISCARD, keys, (generation,))


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What is published: where the data lies, how long it lives, who may be replaced, and the fields of meta."""

    kind: str
    generation: str
    parts: int
    ttl_ms: int | None
    tombstone: bytes
    rule: tuple[bytes, Sequence[bytes]] | None
    fields: Mapping[str, Any]
    max_workspaces: int | None = None
    max_bytes: int | None = None
    ticket: tuple[str, str] = ("", "")


def commit(at: WorkspaceKeys, operation: str, what: Commit) -> ScriptCall:
    """Publishes a generation. Reply: see commit.lua."""
    rule_type, producers = what.rule or (b"", ())
    pairs = [item for pair in what.fields.items() for item in pair]
    args = [
        at.base,
        at.part,
        what.generation,
        what.kind,
        what.parts,
        _or_blank(what.ttl_ms),
        what.tombstone,
        _or_blank(what.max_workspaces),
        _or_blank(what.max_bytes),
        *what.ticket,
        rule_type,
        len(producers),
        *producers,
        *pairs,
    ]
    return ScriptCall(COMMIT, [at.meta, at.gone, at.operation(operation), at.created, at.expiring], args)


def read(at: WorkspaceKeys, first: int, end: int | None, *, most_parts: int) -> ScriptCall:
    """Reads a stretch, about 1 MB and `most_parts` at most. Reply: [1, meta, items, values] or [0, tombstone]."""
    return ScriptCall(READ, (at.meta, at.gone), (first, _or_blank(end), most_parts))


def read_names(at: WorkspaceKeys, first: int, end: int | None, *, most_bytes: int) -> ScriptCall:
    """Reads names of a dict's fields. Reply: [1, meta, items, []] or [0, tombstone]."""
    return ScriptCall(READ, (at.meta, at.gone), (first, _or_blank(end), "", most_bytes, "names"))


def read_fields(at: WorkspaceKeys, names: Sequence[bytes]) -> ScriptCall:
    """Reads named fields of a dict. Reply: [1, meta, values] or [0, tombstone]."""
    return ScriptCall(READ_FIELDS, (at.meta, at.gone), names)


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """What happens to rows, by the positions that they had.

    `replaced` holds position, the row that must stand there (b"" for any), and the new row.
    """

    clears: bool
    replaced: Sequence[tuple[int, bytes, bytes]]
    removed: Sequence[int]
    added: Sequence[bytes]


def mutate(
    at: WorkspaceKeys,
    operation: str,
    change: RowChange,
    *,
    expected_version: str | None,
    codec: str,
    non_finite: int,
) -> ScriptCall:
    """Changes rows. Reply: lines as in mutate.lua."""
    replaced = [word for one in change.replaced for word in one]
    head = [at.base, at.part, expected_version or "", codec, non_finite, "1" if change.clears else ""]
    counts = [len(change.replaced), *replaced, len(change.removed), *change.removed]
    keys = (at.meta, at.operation(operation), at.created, at.expiring)
    return ScriptCall(MUTATE, keys, [*head, *counts, *change.added])


def drop(at: WorkspaceKeys, operation: str) -> ScriptCall:
    """Removes a workspace. Reply: three words, 1 or 0, the same for indexes, how many workspaces the space has left."""
    keys = [at.meta, at.gone, at.operation(operation), at.created, at.expiring]
    return ScriptCall(DROP, keys, [at.base, at.part])


def read_on(
    at: WorkspaceKeys, kind: str, generation: str, edits: int, first: int, last: int, *, most_bytes: int
) -> ScriptCall:
    """Reads parts first to last of a generation. Reply: [1, items, values], or [0] when it changed or is gone."""
    parts = part_keys(at, kind, generation)
    args = [generation, edits, parts[0], parts[1] if kind == "fields" else "", first, last, most_bytes]
    return ScriptCall(READ_ON, (at.meta,), args)


def alive(created: str, base: str, type_document: bytes, parts: Sequence[bytes]) -> ScriptCall:
    """Tells which workspaces are live and of a type. Reply: positions among the parts."""
    return ScriptCall(ALIVE, (created,), [base, type_document, *parts])


def sweep(created: str, expiring: str, base: str, parts: Sequence[bytes]) -> ScriptCall:
    """Takes gone workspaces out of the registry. Reply: [how many are left, part, …]."""
    return ScriptCall(SWEEP, (created, expiring), [base, *parts])


def register_session(sessions: str, space: str, expires_ms: int | None) -> ScriptCall:
    """Notes that a space exists until then at least."""
    return ScriptCall(REGISTER_SESSION, (sessions,), [space, "inf" if expires_ms is None else expires_ms, "GT"])


def let_session_go(sessions: str, space: str, expires_ms: int) -> ScriptCall:
    """Notes that a space has become empty: it is forgotten a day after the given time, unless it is used again."""
    return ScriptCall(REGISTER_SESSION, (sessions,), [space, expires_ms, "LT"])


def touch(at: WorkspaceKeys) -> ScriptCall:
    """Notes that a workspace was read."""
    return ScriptCall(TOUCH, [at.meta], [])


def find_indexes(at: WorkspaceKeys) -> ScriptCall:
    """Reads meta and the known indexes. Reply: [1, meta, [view, "build version rows", …]] or [0, tombstone]."""
    return ScriptCall(FIND_INDEXES, (at.meta, at.gone, at.indexes), ())


def rows_at(
    at: WorkspaceKeys, version: str, view: str, build: str, positions: Sequence[int], *, most_bytes: int
) -> ScriptCall:
    """Reads rows for an index that answered. Reply: [1, meta, rows], fewer rows above the bound; [0] if it is stale."""
    args = [*version.split("."), view, build, most_bytes, *positions]
    return ScriptCall(ROWS_AT, (at.meta, at.gone, at.indexes), args)


def begin_index(at: WorkspaceKeys, version: str, view: str, build: str) -> ScriptCall:
    """Takes the lease to build an index of that version. Reply: 1; 0 if another worker has it, or it is not wanted."""
    return ScriptCall(BEGIN_INDEX, (at.meta, at.building(view)), [*version.split("."), build])


def put_documents(
    at: WorkspaceKeys, version: str, view: str, build: str, documents: Sequence[Sequence[str]], first: int
) -> ScriptCall:
    """Writes documents first, first + 1, … and renews the lease. Reply: 1; 0 if the build is no longer wanted."""
    words = [word for document in documents for word in (len(document), *document)]
    args = [*version.split("."), build, at.documents(build), first, *words]
    return ScriptCall(PUT_DOCUMENTS, (at.meta, at.building(view)), args)


def keep_documents(at: WorkspaceKeys, version: str, view: str, build: str, first: int, count: int) -> ScriptCall:
    """Takes the expiry off some documents and renews the lease. Reply: 1; 0 if the build is no longer wanted."""
    args = [*version.split("."), build, at.documents(build), first, count]
    return ScriptCall(KEEP_DOCUMENTS, (at.meta, at.building(view)), args)


def publish_index(at: WorkspaceKeys, version: str, view: str, build: str, rows: int, shape: bytes) -> ScriptCall:
    """Makes an index known. Reply: [1, the entry that it replaces or ""]; [0] if the workspace changed meanwhile."""
    args = [*version.split("."), view, build, rows, shape]
    return ScriptCall(PUBLISH_INDEX, (at.meta, at.indexes, at.building(view), at.shape(build)), args)


def retire_index(at: WorkspaceKeys, view: str, build: str) -> ScriptCall:
    """Forgets an index, if it is still that one."""
    return ScriptCall(RETIRE_INDEX, (at.indexes, at.shape(build)), (view, build))


def release(at: WorkspaceKeys, version: str, view: str, build: str) -> ScriptCall:
    """Gives a lease back, if it is still one's own."""
    return ScriptCall(RELEASE, (at.building(view),), (build, version))


def join_flight(at: WorkspaceKeys, token: str, digest: str, followed: str) -> ScriptCall:
    """Takes the lease of a workspace's producer if it is free. Reply: see join_flight.lua."""
    keys = (at.lease, at.landed(followed) if followed else at.lease, at.meta)
    return ScriptCall(JOIN_FLIGHT, keys, (token, digest, layout.FLIGHT_MS, layout.LANDED_MS, followed))


def keep_flight(at: WorkspaceKeys, token: str) -> ScriptCall:
    """Renews a lease. Reply: 1; 0 when it is no longer one's own."""
    return ScriptCall(KEEP_FLIGHT, (at.lease,), (token, layout.FLIGHT_MS))


def land_flight(at: WorkspaceKeys, token: str, outcome: bytes) -> ScriptCall:
    """Gives a lease back and leaves the outcome (b"" for none) to those who follow."""
    return ScriptCall(LAND_FLIGHT, (at.lease, at.landed(token)), (token, layout.LANDED_MS, outcome))


def weigh(created: str, base: str) -> ScriptCall:
    """Adds up the live workspaces of a space. Reply: how many, bytes, characters."""
    return ScriptCall(WEIGH, (created,), (base,))


def _or_blank(number: int | None) -> int | str:
    return "" if number is None else number
