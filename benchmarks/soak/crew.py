"""The worker processes of a soak, seen from outside: started together, read from, ended, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.plan import Plan
from benchmarks.soak.tally import Tally

START_SECONDS = 60.0
END_SECONDS = 30.0
SILENT_SECONDS = 30.0
"""A worker that says nothing for so long is stuck: it reports each second."""

_LONGEST_LINE = 1 << 24
_ROOT = Path(__file__).parents[2]


@dataclass
class Member:
    """One worker process and what it said last.

    `memory` is (seconds since it began, resident bytes, bytes remembered on purpose).
    """

    number: int
    process: asyncio.subprocess.Process
    tally: Tally = field(default_factory=Tally)
    memory: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])
    heard: float = 0.0
    is_done: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Takes in what the process says until it ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            told, self.heard = json.loads(line), time.monotonic()
            if told["kind"] == "ready":
                self.ready.set()
                continue
            self.tally = Tally.of_json(told["tally"])
            self.is_done = told["kind"] == "done"
            if not self.is_done:
                self.memory.append((told["at"], told["resident"], told["remembered"]))

    def fault(self) -> str:
        """What is wrong with the process; "" for nothing."""
        code = self.process.returncode
        if code is not None and not (code == 0 and self.is_done):
            return f"worker {self.number} ended with {code}"
        if code is None and self.heard and time.monotonic() - self.heard > SILENT_SECONDS:
            return f"worker {self.number} said nothing for {SILENT_SECONDS:g} s"
        return ""


class Crew:
    """All worker processes."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.epoch = time.monotonic()

    async def begin(self) -> None:
        """Waits until every worker is ready and lets them all begin.

        Raises:
            RuntimeError: One ended, or was not ready in time.
        """
        listening = [asyncio.create_task(member.listen()) for member in self.members]
        ready = asyncio.gather(*(member.ready.wait() for member in self.members))
        await asyncio.wait([ready, *listening], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            raise RuntimeError("a worker did not start; what it said stands above")
        for member in self.members:
            assert member.process.stdin is not None
            member.process.stdin.write(b"go\n")
        self.listening = listening

    async def end(self) -> None:
        """Lets every worker finish its calls, and takes in its last words."""
        for member in self.members:
            assert member.process.stdin is not None
            member.process.stdin.close()
        await asyncio.wait(self.listening, timeout=END_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(member.process.wait() for member in self.members)), END_SECONDS)

    @property
    def tally(self) -> Tally:
        """What all of them have counted."""
        return Tally.sum(member.tally for member in self.members)

    @property
    def faults(self) -> list[str]:
        """What is wrong with the processes."""
        return [fault for member in self.members if (fault := member.fault())]


@contextlib.asynccontextmanager
async def started(plan: Plan) -> AsyncGenerator[Crew]:
    """The workers of a plan. They are killed at the end, should they still be there.

    Each is in a process session of its own: Ctrl-C reaches this process alone, which ends them in order.
    """
    members: list[Member] = []
    try:
        for number in range(plan.processes):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", plan.worker, plan.to_text(), str(number)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                cwd=_ROOT,
                start_new_session=True,
            )
            members.append(Member(number, process))
        yield Crew(members)
    finally:
        for member in members:
            if member.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    member.process.kill()
            await member.process.wait()
