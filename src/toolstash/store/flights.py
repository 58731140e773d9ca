"""Leases that let one worker make a workspace while the others wait for it.

A flight is one run of a keyed producer. Its leader holds the lease of the workspace and renews it; whoever asks
meanwhile is told who leads and whether the call is the same one, and, once it is over, how it ended.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from toolstash.contracts import Address
from toolstash.errors import StoreUnavailableError
from toolstash.wire import keys as layout


def renewal_seconds() -> float:
    """How often a leader renews its lease: every third of its life."""
    return layout.FLIGHT_MS / 3000


class OvertakenError(StoreUnavailableError):
    """The lease ended while its holder gave no sign of life, and another worker has taken over. Nothing was stored."""


class Ticket(NamedTuple):
    """What a leader shows to the store: its token, and the generation of the workspace when it began ("" for none).

    A store that finds the lease in other hands, or the lease gone and another generation in place, refuses the write.
    """

    token: str
    generation: str


class Standing(NamedTuple):
    """Where a caller stands: it leads, another one does (its token, and whether its call is the same), or it landed."""

    role: Literal["leading", "busy", "landed"]
    leader: str = ""
    is_same: bool = False
    outcome: bytes = b""
    generation: str = ""


class Flights(Protocol):
    """The leases of a store. `token` is a worker's own, `digest` tells one call from another."""

    async def join(self, at: Address, token: str, digest: str, followed: str = "") -> Standing:
        """Takes the lease if it is free. `followed` is the leader whose outcome the caller waits for.

        Whoever takes over from a leader that it followed is followed in turn by the others.
        """
        ...

    async def keep(self, at: Address, token: str) -> None:
        """Renews a lease."""
        ...

    async def land(self, at: Address, token: str, outcome: bytes = b"") -> None:
        """Gives a lease back, and tells those who follow how it ended; without an outcome another one takes over."""
        ...


@dataclass(slots=True)
class _Lease:
    token: str
    digest: str
    ends_at: float
    is_followed: bool


class LocalFlights:
    """Leases within one process, for stores that have none of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[Address, _Lease] = {}
        self._outcomes: dict[str, tuple[float, bytes]] = {}
        self._successors: dict[str, tuple[float, str]] = {}

    async def join(self, at: Address, token: str, digest: str, followed: str = "") -> Standing:
        with self._lock:
            held = self._held(at)
            if followed and (held is None or held.token != followed):
                if followed in self._successors:
                    return Standing("busy", self._successors[followed][1], is_same=True)
                if followed in self._outcomes:
                    return Standing("landed", outcome=self._outcomes[followed][1])
            if held is None:
                self._take(at, token, digest, followed)
                return Standing("leading", generation=self.generation_of(at))
            is_same = held.digest == digest
            held.is_followed = held.is_followed or is_same
            return Standing("busy", held.token, is_same)

    def generation_of(self, at: Address) -> str:
        """The generation of a workspace, where a store knows it."""
        return ""

    def holder(self, at: Address) -> str:
        """The token of the leader; "" for none."""
        with self._lock:
            held = self._held(at)
        return "" if held is None else held.token

    async def keep(self, at: Address, token: str) -> None:
        with self._lock:
            held = self._held(at)
            if held is not None and held.token == token:
                held.ends_at = time.monotonic() + layout.FLIGHT_MS / 1000

    async def land(self, at: Address, token: str, outcome: bytes = b"") -> None:
        with self._lock:
            held = self._held(at)
            is_followed = True
            if held is not None and held.token == token:
                is_followed = held.is_followed
                del self._leases[at]
            if outcome and is_followed:
                self._outcomes[token] = (time.monotonic() + layout.LANDED_MS / 1000, outcome)

    def _held(self, at: Address) -> _Lease | None:
        held = self._leases.get(at)
        if held is not None and held.ends_at < time.monotonic():
            del self._leases[at]
            return None
        return held

    def _take(self, at: Address, token: str, digest: str, followed: str) -> None:
        now = time.monotonic()
        self._outcomes = {name: one for name, one in self._outcomes.items() if one[0] > now}
        self._successors = {name: one for name, one in self._successors.items() if one[0] > now}
        self._leases[at] = _Lease(token, digest, now + layout.FLIGHT_MS / 1000, is_followed=bool(followed))
        if followed:
            self._successors[followed] = (now + layout.LANDED_MS / 1000, token)
