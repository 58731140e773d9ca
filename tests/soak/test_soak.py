"""The soak itself: it passes on a sound store, fails on one that answers wrongly, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
from benchmarks.soak.crew import Member
from benchmarks.soak.plan import Plan
from benchmarks.soak.run import soak
from benchmarks.soak.server import Census
from benchmarks.soak.tally import Tally
from benchmarks.soak.verdict import Findings

from tests.servers import shared_server
from tests.wait import until

SMALL = ("--processes", "2", "--callers", "4", "--sessions", "10")


@contextlib.asynccontextmanager
async def soaking(*options: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`python -m benchmarks.soak` with these options, killed at the end should it still run."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.soak", *SMALL, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_sound_store_passes() -> None:
    async with soaking("--minutes", "0.05", "--url", shared_server("valkey").url) as process:
        told = (await process.communicate())[0].decode()
    assert process.returncode == 0, told
    assert "all was well" in told
    assert "keys without expiry: 0" in told


async def test_a_store_that_answers_wrongly_is_found_out(capsys: pytest.CaptureFixture[str]) -> None:
    url = shared_server("valkey").url
    plan = Plan(minutes=0.05, processes=2, callers=4, sessions=10, url=url, worker="tests.soak.lying_worker")
    assert await soak(plan) == 1
    told = capsys.readouterr().out
    for kind in ("foreign", "torn", "unexpected"):
        assert f"× {kind}" in told
        assert f"! {kind}: " in told
    assert "all was well" not in told


async def test_ctrl_c_ends_it_with_the_table_so_far_and_leaves_no_process() -> None:
    async with soaking("--minutes", "10", "--url", shared_server("valkey").url) as process:
        assert process.stdout is not None
        head = await asyncio.wait_for(process.stdout.readline(), 30)
        assert b"2 processes" in head
        workers = await until(lambda: workers_of(process.pid), what="both workers run")
        await until(lambda: all(cpu_seconds(worker) > 0.5 for worker in workers), what="both workers work")
        process.send_signal(signal.SIGINT)
        told = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
        assert "keys without expiry" in told
        assert "Traceback" not in told
        assert not any(worker.is_running() for worker in workers)


def workers_of(pid: int) -> list[psutil.Process]:
    """The two workers; empty while there are fewer."""
    children = psutil.Process(pid).children(recursive=True)
    workers = [child for child in children if "benchmarks.soak.worker" in child.cmdline()]
    return workers if len(workers) == 2 else []


def cpu_seconds(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


def findings(*, workers_mb: list[float], server_mb: list[float], clients: list[int]) -> Findings:
    """A soak of ten minutes; the figures are spread evenly over it."""

    def spread(values: list[float]) -> list[tuple[float, float]]:
        return [(600 * (place + 0.5) / len(values), value) for place, value in enumerate(values)]

    member = Member(0, process=None)  # type: ignore[arg-type]
    member.memory = [(at, round(value * 1e6), 0) for at, value in spread(workers_mb)]
    taken = [
        Census(at, count, round(value * 1e6), 0, Counter())
        for (at, value), count in zip(spread(server_mb), clients, strict=True)
    ]
    tally = Tally()
    tally.count("page", "ok", 0.001)
    return Findings(600.0, tally, [member], taken, [], 1, 1, [])


FLAT = [50.0] * 6


@pytest.mark.parametrize(
    ("workers_mb", "server_mb", "clients", "wrong"),
    [
        (FLAT, FLAT, [10] * 6, []),
        ([50, 50, 60, 65, 75, 80], FLAT, [10] * 6, ["worker 0 is not flat"]),
        (FLAT, [50, 50, 60, 65, 75, 80], [10] * 6, ["server's memory, without notes is not flat"]),
        (FLAT, FLAT, [10, 10, 12, 14, 16, 18], ["server's clients is not flat"]),
    ],
)
def test_what_grows_is_named(
    workers_mb: list[float], server_mb: list[float], clients: list[int], wrong: list[str]
) -> None:
    assert findings(workers_mb=workers_mb, server_mb=server_mb, clients=clients).table()[1] == wrong


def test_times_are_told_within_five_percent() -> None:
    tally = Tally()
    for number in range(1, 1_001):
        tally.count("page", "ok", number / 1000)
    joined = Tally.sum([Tally.of_json(tally.to_json()), Tally()])
    assert joined.quantile(0.5) == pytest.approx(0.5, rel=0.06)
    assert joined.quantile(0.99, "page") == pytest.approx(0.99, rel=0.06)
    assert joined.calls == 1_000
