"""What a soak does, as it is handed to its worker processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

WORKER = "benchmarks.soak.worker"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done, and where.

    Attributes:
        minutes: How long the callers call.
        processes: Worker processes.
        callers: Concurrent callers in all; each process has its share.
        sessions: Sessions, of which each call takes one by chance.
        url: The server. None: an embedded one that ends with the soak.
        prefix: What every key starts with.
        worker: The module that a worker process runs.
    """

    minutes: float = 3.0
    processes: int = 8
    callers: int = 64
    sessions: int = 1_000
    url: str | None = None
    prefix: str = "soak"
    worker: str = WORKER

    def __post_init__(self) -> None:
        if self.minutes <= 0 or self.sessions < 2 or not 1 <= self.processes <= self.callers:
            raise ValueError("a soak needs some minutes, two sessions, a process, and a caller for each process")

    @property
    def seconds(self) -> float:
        """How long the callers call."""
        return self.minutes * 60

    @property
    def lasting_ttl(self) -> float:
        """Seconds that workspaces live which nobody drops: a sixth of the soak, so that what lives is soon as much as
        ever.
        """
        return max(5.0, min(30.0, self.seconds / 6))

    @property
    def passing_ttl(self) -> float:
        """Seconds that the other workspaces live: short, so that many expire in each soak."""
        return max(1.0, min(5.0, self.seconds / 10))

    def callers_of(self, number: int) -> int:
        """How many callers the worker of that number has."""
        return self.callers // self.processes + (number < self.callers % self.processes)

    def at(self, url: str, prefix: str) -> Plan:
        """The same on that server, under that prefix."""
        return replace(self, url=url, prefix=prefix)

    def to_text(self) -> str:
        """For a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Plan:
        """What `to_text` wrote."""
        return cls(**json.loads(text))
