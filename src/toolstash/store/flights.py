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
from toolstash.wire import keys as layout


def renewal_seconds() -> float:
    """How often a leader renews its lease: every third of its life."""
    return layout.FLIGHT_MS / 3000


class Standing(NamedTuple):
    """Where a caller stands: it leads, another one does (its token, and whether its call is the same), or it landed."""

    role: Literal["leading", "busy", "landed"]
    leader: str = ""
    is_same: bool = False
    outcome: bytes = b""


class Flights(Protocol):
    """The leases of a store. `token` is a worker's own, `digest` tells one call from another."""

    async def join(self, at: Address, token: str, digest: str, followed: str = "") -> Standing:
        """Takes the lease if it is free. `followed` is the leader whose outcome the caller waits for."""
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
    is_followed: bool = False


class LocalFlights:
    """Leases within one process, for stores that have none of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[Address, _Lease] = {}
        self._landed: dict[str, tuple[bytes | Standing, float]] = {}
        """How flights ended, or who took over, and until when that is kept."""

    async def join(self, at: Address, token: str, digest: str, followed: str = "") -> Standing:
        now = time.monotonic()
        with self._lock:
            held = self._leases.get(at)
            if held is not None and held.ends_at < now:
                del self._leases[at]
                held = None
            if followed in self._landed and (held is None or held.token != followed):
                outcome = self._landed[followed][0]
                return outcome if isinstance(outcome, Standing) else Standing("landed", outcome=outcome)
            if held is not None:
                is_same = held.digest == digest
                held.is_followed = held.is_followed or is_same
                return Standing("busy", held.token, is_same)
            self._leases[at] = _Lease(token, digest, now + layout.FLIGHT_MS / 1000, bool(followed))
            if followed:
                self._landed[followed] = (Standing("busy", token, is_same=True), now + layout.LANDED_MS / 1000)
            return Standing("leading")

    async def keep(self, at: Address, token: str) -> None:
        with self._lock:
            held = self._leases.get(at)
            if held is not None and held.token == token:
                held.ends_at = time.monotonic() + layout.FLIGHT_MS / 1000

    async def land(self, at: Address, token: str, outcome: bytes = b"") -> None:
        now = time.monotonic()
        with self._lock:
            held = self._leases.get(at)
            is_own = held is not None and held.token == token
            if is_own:
                del self._leases[at]
            self._landed = {name: one for name, one in self._landed.items() if one[1] > now}
            if outcome and not (is_own and held is not None and not held.is_followed):
                self._landed[token] = (outcome, now + layout.LANDED_MS / 1000)
