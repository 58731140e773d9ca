"""Whether a soak went well, in lines that say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from benchmarks.soak.crew import Member
from benchmarks.soak.server import Census
from benchmarks.soak.tally import Tally

JUDGED_SECONDS = 59.0
"""Shorter soaks say nothing about growth: start, first questions and the first lives are most of them."""

WARM_SHARE = 1 / 6
"""The beginning, one life of a workspace, that counts for neither third."""

MOST_WORKER_GROWTH = (0.05, 5_000_000)
"""What a worker may hold more in the last third than in the first, without what it remembers of rows on purpose: 5 MB
for caches that fill up to their bounds (names of keys, notes of accesses) and 5 % for freed memory that lies in pieces.
"""

MOST_SERVER_GROWTH = (0.10, 3_000_000)
"""The same for the server, without notes of writes: how many workspaces live, and how long, differs by chance."""

MOST_CLIENT_GROWTH = 1.0
"""Clients more for each worker: a pool keeps as many as were ever wanted at once, and that shows itself late."""

T = TypeVar("T")
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Growth:
    """A quantity in the first and in the last third of the time; `is_flat` is None where the time was too short."""

    what: str
    first: float
    last: float
    most: float
    is_flat: bool | None

    def line(self, show: Callable[[float], str]) -> str:
        """For the table."""
        told = {None: "not judged: under a minute", True: "flat", False: f"GREW beyond {show(self.most)}"}[self.is_flat]
        return f"  {self.what:<36} {show(self.first):>12} {show(self.last):>12}   {told}"


def megabytes(value: float) -> str:
    """Bytes as a person reads them."""
    return f"{value / _MB:,.1f} MB"


def thirds(samples: Sequence[T], at: Callable[[T], float], seconds: float) -> tuple[list[T], list[T]]:
    """The samples of the first third, once it is warm, and of the last."""
    first = [sample for sample in samples if seconds * WARM_SHARE <= at(sample) < seconds / 3]
    last = [sample for sample in samples if at(sample) >= seconds * 2 / 3]
    return first, last


def growth(
    what: str, first: Sequence[float], last: Sequence[float], seconds: float, allowed: tuple[float, float]
) -> Growth:
    """Means of both thirds; flat if the last is above the first by no more than a share and a number."""
    before, after = (fmean(values) if values else float("nan") for values in (first, last))
    most = before * (1 + allowed[0]) + allowed[1]
    return Growth(what, before, after, most, after <= most if seconds >= JUDGED_SECONDS else None)


def worker_growths(members: Sequence[Member], seconds: float) -> list[Growth]:
    """Each worker's memory without what it remembers of rows on purpose."""
    found: list[Growth] = []
    for member in members:
        pair = thirds(member.memory, lambda sample: sample[0], seconds)
        first, last = ([resident - remembered for _, resident, remembered in third] for third in pair)
        found.append(growth(f"worker {member.number}", first, last, seconds, MOST_WORKER_GROWTH))
    return found


def server_growths(taken: Sequence[Census], seconds: float, workers: int) -> tuple[Growth, Growth]:
    """The server's memory without notes, and its clients."""
    first, last = thirds(taken, lambda one: one.at, seconds)
    held = [[one.bytes - one.noted_bytes for one in third] for third in (first, last)]
    clients = [[one.clients for one in third] for third in (first, last)]
    return (
        growth("server's memory, without notes", *held, seconds, MOST_SERVER_GROWTH),
        growth("server's clients", *clients, seconds, (0.0, MOST_CLIENT_GROWTH * workers)),
    )


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a soak came to."""

    seconds: float
    tally: Tally
    members: Sequence[Member]
    taken: Sequence[Census]
    everlasting: Sequence[str]
    clients_left: int
    clients_before: int
    crew_faults: Sequence[str]

    def table(self) -> tuple[list[str], list[str]]:
        """Lines to print, and what was wrong in them (empty: all was well)."""
        workers = worker_growths(self.members, self.seconds)
        server, clients = server_growths(self.taken, self.seconds, len(self.members))
        lines = [*self._calls(), *self._memory(workers, server, clients), *self._rest()]
        wrong = [f"{count:,} × {kind}" for kind, count in self.tally.faults.items()]
        wrong += [f"{one.what} is not flat" for one in (*workers, server, clients) if one.is_flat is False]
        wrong += [f"{len(self.everlasting)} keys never expire"] if self.everlasting else []
        if self.clients_left > self.clients_before:
            wrong.append(f"{self.clients_left - self.clients_before} clients are left")
        wrong += [] if self.tally.calls else ["nothing was called"]
        return lines, [*wrong, *self.crew_faults]

    def _calls(self) -> list[str]:
        tally = self.tally
        lines = [f"\n{tally.calls:,} calls in {self.seconds:,.1f} s: {tally.calls / self.seconds:,.0f} calls/s"]
        lines.append(f"  {'call':<26} {'ok':>9} {'gone':>7} {'conflict':>8} {'other':>6} {'p50 ms':>8} {'p99 ms':>8}")
        for job in tally.jobs:
            counts = {name: count for (of, name), count in tally.outcomes.items() if of == job}
            expected = [counts.pop(name, 0) for name in ("ok", "gone", "conflict")]
            lines.append(_call_line(job, [*expected, sum(counts.values())], tally, job))
        totals = [
            sum(count for (_, name), count in tally.outcomes.items() if name == kind)
            for kind in ("ok", "gone", "conflict")
        ]
        lines.append(_call_line("all", [*totals, tally.calls - sum(totals)], tally, None))
        lines += [f"  unexpected: {count:,} × {kind}" for kind, count in tally.unexpected.most_common()]
        return lines

    def _memory(self, workers: Sequence[Growth], server: Growth, clients: Growth) -> list[str]:
        lines = [f"\n  {'':<36} {'first third':>12} {'last third':>12}"]
        lines += [one.line(megabytes) for one in workers]
        remembered = max((sample[2] for member in self.members for sample in member.memory), default=0)
        lines.append(f"  (without what a worker remembers of rows on purpose, here at most {megabytes(remembered)})")
        lines += [server.line(megabytes), clients.line("{:,.1f}".format)]
        if self.taken:
            end = self.taken[-1]
            keys = ", ".join(f"{count:,} {name}" for name, count in end.keys.most_common(8))
            lines.append(f"  (notes of writes and of what is gone, at the end: {megabytes(end.noted_bytes)})")
            lines.append(f"  keys at the end: {keys}")
        return lines

    def _rest(self) -> list[str]:
        lines = [
            f"  keys without expiry: {len(self.everlasting)} {' '.join(self.everlasting[:5])}".rstrip(),
            f"  clients besides this one when the workers were gone: {self.clients_left - self.clients_before}",
        ]
        return [*lines, *(f"  ! {complaint}" for complaint in self.tally.complaints)]


def _call_line(title: str, counts: Sequence[int], tally: Tally, job: str | None) -> str:
    ok, gone, conflict, other = counts
    times = [f"{tally.quantile(share, job) * 1000:>8,.1f}" for share in (0.5, 0.99)]
    return f"  {title:<26} {ok:>9,} {gone:>7,} {conflict:>8,} {other:>6,} {' '.join(times)}"
