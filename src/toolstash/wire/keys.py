"""Every key that toolstash writes is born here.

    <prefix>:{<space>}:<workspace>:meta      hash     what is known of a workspace; its writer's time to live
    <prefix>:{<space>}:<workspace>:rows:<g>  list     one JSON document a row (or one for a bare value)
    <prefix>:{<space>}:<workspace>:text:<g>  list     pieces of PIECE_CHARS code points, each a JSON string
    <prefix>:{<space>}:<workspace>:names:<g> list     the keys of a dict, in order, as JSON strings
    <prefix>:{<space>}:<workspace>:fields:<g> hash    the values of a dict by JSON key
    <prefix>:{<space>}:<workspace>:gone      string   tombstone, GONE_MS longer than the data
    <prefix>:{<space>}:<workspace>:op:<id>   string   the result of one write, OPS_MS: longer than its caller tries
    <prefix>:{<space>}:<workspace>:retired:<g> string how often rows of a replaced generation were edited, RETIRED_MS
    <prefix>:{<space>}:<workspace>:lease     string   token and call of the worker that makes it just now, FLIGHT_MS
    <prefix>:{<space>}:<workspace>:landed:<token> string how that ended or who took over, LANDED_MS
    <prefix>:{<space>}:<workspace>:indexes   hash     its search indexes: view → build, version and rows
    <prefix>:{<space>}:<workspace>:shape:<build> string what an index holds of which fields
    <prefix>:{<space>}:<workspace>:building:<view> string build and version of an index that is being made, LEASE_MS
    <prefix>:{<space>}:<workspace>:doc:<build>:<n> hash what an index holds of row n; UNFINISHED_INDEX_MS at first
    <prefix>:{<space>}:<workspace>:idx:<build> (no key) the name of an index
    <prefix>:{<space>}:<call>:call           hash     a call that runs, waits or has ended; as long as it is of use
    <prefix>:{<space>}:<call>:op:<id>        string   as of a workspace
    <prefix>:{<space>}:waiting               zset     calls that wait for an answer by time of expiry, GONE_MS after it
    <prefix>:{<space>}:created               zset     workspaces of the space by time of storing, GONE_MS after its last
    <prefix>:{<space>}:expiring              zset     the same by time of expiry
    <prefix>:{<space>}:events                stream   the last MOST_EVENTS of the space; like the three above
    <prefix>:sessions                        zset     spaces of sessions by expiry, GONE_MS after the last
    <prefix>:{work}:due                      zset     "space call" of answered calls by when to look at them, DUE_MS
    <prefix>:{work}:events                   stream   wakes those who resume calls, WAKE_MS
    <prefix>:{<inbox>}:events                stream   tells a worker which of its calls were cancelled, WAKE_MS

The hash tag is the space (a session, or "shared"), so all that one write touches lies in one slot. `g` is a
generation: random, written once, never used again. Generations that are not published live UNFINISHED_MS. Ids of
workspaces and calls are encoded and hold no colon, so no id makes a key of another family.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from toolstash.contracts import SHARED_SPACE, Address

FORMAT = "1"
LABEL_DIGITS = 12
UNFINISHED_MS = 120_000
RETIRED_MS = 60_000
GONE_MS = 24 * 3_600_000
OPS_MS = 120_000
PIECE_CHARS = 4_096
LEASE_MS = 30_000
UNFINISHED_INDEX_MS = 3_600_000
FLIGHT_MS = 10_000
LANDED_MS = 60_000
MOST_EVENTS = 5_000
WAKE_MS = 60_000
DUE_MS = 8 * 24 * 3_600_000

_MAX_ID_CHARS = 100
_SHORTENED_CHARS = 80
_LABELLED = re.compile(rf"@[0-9a-f]{{{LABEL_DIGITS}}}\Z")
_INDEX = re.compile(r":\{([0-9a-f]+|shared)\}:([^:]+):idx:([0-9a-z_]+)\Z")
_PREFIX = re.compile(r"[A-Za-z0-9_.:/-]{1,200}\Z")


def space_of_session(session_id: str | None) -> str:
    """The space of a session: 32 hex digits of SHA-256, so that no session id can name a key."""
    if session_id is None:
        return SHARED_SPACE
    return _digest(session_id)[:32]


def label_of(space: str) -> str:
    """What ends every id made in a space: "" for the shared one."""
    return "" if space == SHARED_SPACE else "@" + space[:LABEL_DIGITS]


def split_label(workspace_id: str) -> tuple[str, str]:
    """An id's body and its label ("" when it has none)."""
    match = _LABELLED.search(workspace_id)
    return (workspace_id, "") if match is None else (workspace_id[: match.start()], match.group())


def shorten_id(workspace_id: str) -> str:
    """The id as it is stored: a body above 100 characters becomes 80 of them, `~` and 12 hex of its hash."""
    if len(workspace_id) <= _MAX_ID_CHARS:
        return workspace_id
    body, label = split_label(workspace_id)
    if len(body) > _MAX_ID_CHARS:
        body = f"{body[:_SHORTENED_CHARS]}~{_digest(body)[:LABEL_DIGITS]}"
    return body + label


def random_id(workspace_type: str, space: str) -> str:
    """A fresh id of a type in a space."""
    return shorten_id(f"{workspace_type}_{secrets.token_hex(6)}{label_of(space)}")


def new_generation() -> str:
    """A name for a set of rows that no other set ever has."""
    return secrets.token_hex(10)


def encode_id(workspace_id: str) -> str:
    """An id as a part of a key: percent-encoded outside letters, digits and `_ . @ ~ -`."""
    return quote(workspace_id, safe="@", errors="surrogatepass")


def decode_id(part: str) -> str:
    """The id that `encode_id` made a key part of."""
    return unquote(part, errors="surrogatepass")


@dataclass(frozen=True, slots=True)
class WorkspaceKeys:
    """The keys of one workspace and of the space that it lives in."""

    base: str
    part: str
    stem: str
    meta: str
    gone: str
    created: str
    expiring: str

    def operation(self, name: str) -> str:
        """The result of one write."""
        return f"{self.stem}op:{name}"

    @property
    def lease(self) -> str:
        """Which worker makes the workspace just now."""
        return f"{self.stem}lease"

    def landed(self, token: str) -> str:
        """How a flight ended."""
        return f"{self.stem}landed:{token}"

    @property
    def call(self) -> str:
        """What is known of the call of that id."""
        return f"{self.stem}call"

    @property
    def indexes(self) -> str:
        """What is known of the search indexes of the workspace."""
        return f"{self.stem}indexes"

    def shape(self, build: str) -> str:
        """What an index holds."""
        return f"{self.stem}shape:{build}"

    def building(self, view: str) -> str:
        """Who makes an index of these texts just now."""
        return f"{self.stem}building:{view}"

    def index(self, build: str) -> str:
        """The name of an index. A build, `<view>_<random>`, is a name that no other index ever has."""
        return f"{self.stem}idx:{build}"

    def documents(self, build: str) -> str:
        """What the keys of an index's documents begin with; the number of the row follows."""
        return f"{self.stem}doc:{build}:"

    def retired(self, generation: str) -> str:
        """The state in which a generation was replaced."""
        return f"{self.stem}retired:{generation}"


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys under one prefix.

    Raises:
        ValueError: The prefix has characters that mean something to Redis (`{`, `*`, spaces, …).
    """

    prefix: str

    def __post_init__(self) -> None:
        if not _PREFIX.match(self.prefix):
            raise ValueError(
                f"prefix {self.prefix!r} must be 1 to 200 characters of letters, digits and '_', '.', ':', '/', '-'"
            )

    @property
    def sessions(self) -> str:
        """Which sessions exist."""
        return f"{self.prefix}:sessions"

    def base(self, space: str) -> str:
        """What all keys of a space start with."""
        return f"{self.prefix}:{{{space}}}:"

    def created(self, space: str) -> str:
        """A space's workspaces by time of storing."""
        return self.base(space) + "created"

    def expiring(self, space: str) -> str:
        """A space's workspaces by time of expiry."""
        return self.base(space) + "expiring"

    def events(self, space: str) -> str:
        """What happened in a space."""
        return self.base(space) + "events"

    def waiting(self, space: str) -> str:
        """A space's calls that wait for an answer by time of expiry."""
        return self.base(space) + "waiting"

    def due(self, space: str) -> str:
        """The answered calls of all spaces by when they should be looked at."""
        return self.base(space) + "due"

    def workspace(self, at: Address) -> WorkspaceKeys:
        """The keys of the workspace at an address."""
        return _workspace_keys(self, at)

    def address_of_index(self, name: str) -> tuple[Address, str] | None:
        """Whose index that is, and its build; None for an index that is not under the prefix."""
        match = _INDEX.match(name, len(self.prefix)) if name.startswith(self.prefix) else None
        if match is None:
            return None
        space, part, build = match.groups()
        return Address(space, decode_id(part)), build

    def pattern(self) -> str:
        """A SCAN pattern for everything under the prefix (which holds no pattern characters)."""
        return f"{self.prefix}:*"


@lru_cache(maxsize=4_096)
def _workspace_keys(keys: Keys, at: Address) -> WorkspaceKeys:
    base = keys.base(at.space)
    part = encode_id(at.workspace_id)
    stem = f"{base}{part}:"
    return WorkspaceKeys(
        base=base,
        part=part,
        stem=stem,
        meta=stem + "meta",
        gone=stem + "gone",
        created=keys.created(at.space),
        expiring=keys.expiring(at.space),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
