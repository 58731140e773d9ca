"""What is counted: calls by kind and outcome, how long they took, and what was wrong. Takes no more room with time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EXPECTED = ("ok", "gone", "conflict")
"""Outcomes of a sound store: an answer, a workspace that expired or was dropped, one that changed meanwhile."""

MOST_COMPLAINTS = 10
MOST_OUTCOMES = 40
_STEP = math.log(1.05)  # a bucket of times is 5 % wide


@dataclass
class Tally:
    """Counts of one worker, or of all of them."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    times: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    faults: Counter[str] = field(default_factory=Counter[str])
    complaints: list[str] = field(default_factory=list[str])

    def count(self, job: str, outcome: str, seconds: float) -> None:
        """Counts one call. Outcomes beyond the first forty kinds are counted together."""
        if (job, outcome) not in self.outcomes and len(self.outcomes) > MOST_OUTCOMES:
            outcome = "another error"
        self.outcomes[job, outcome] += 1
        self.times[job, math.floor(math.log(max(seconds, 1e-6)) / _STEP)] += 1

    def complain(self, kind: str, what: str) -> None:
        """Counts a wrong answer; the first ones are kept in words."""
        self.faults[kind] += 1
        if len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(f"{kind}: {what[:300]}")

    @property
    def calls(self) -> int:
        """All calls."""
        return self.outcomes.total()

    @property
    def unexpected(self) -> Counter[str]:
        """Outcomes that a sound store does not have, by kind."""
        found: Counter[str] = Counter()
        for (job, outcome), count in self.outcomes.items():
            if outcome not in EXPECTED:
                found[f"{job}: {outcome}"] += count
        return found

    @property
    def jobs(self) -> list[str]:
        """The kinds of calls, most frequent first."""
        by_job: Counter[str] = Counter()
        for (job, _), count in self.outcomes.items():
            by_job[job] += count
        return [job for job, _ in by_job.most_common()]

    def quantile(self, share: float, job: str | None = None) -> float:
        """Seconds within which a share of the calls was answered, to 5 %."""
        buckets: Counter[int] = Counter()
        for (name, bucket), count in self.times.items():
            if job in (None, name):
                buckets[bucket] += count
        left = share * buckets.total()
        for bucket in sorted(buckets):
            left -= buckets[bucket]
            if left <= 0:
                return math.exp((bucket + 1) * _STEP)
        return math.nan

    def to_json(self) -> dict[str, Any]:
        """For the way from a worker."""
        return {
            "outcomes": [[*key, count] for key, count in self.outcomes.items()],
            "times": [[*key, count] for key, count in self.times.items()],
            "faults": dict(self.faults),
            "complaints": self.complaints,
        }

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> Tally:
        """What `to_json` gave."""
        return cls(
            Counter({(job, outcome): count for job, outcome, count in told["outcomes"]}),
            Counter({(job, bucket): count for job, bucket, count in told["times"]}),
            Counter(told["faults"]),
            told["complaints"],
        )

    @classmethod
    def sum(cls, tallies: Iterable[Tally]) -> Tally:
        """All of them together."""
        total = cls()
        for tally in tallies:
            total.outcomes += tally.outcomes
            total.times += tally.times  # also negative buckets: only counts are added
            total.faults += tally.faults
            total.complaints += tally.complaints
        return total
