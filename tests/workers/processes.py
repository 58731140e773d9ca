"""Programs that the tests start: their output is kept, they are stopped by a signal, and must have had nothing to say.

Each runs with ResourceWarning as an error, so whatever is left open shows on its stderr.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.wait import until_sync

ROOT = Path(__file__).parents[2]
LEFT_OPEN = ("ResourceWarning", "never awaited", "Task was destroyed", "different loop", "Event loop is closed")


class Program:
    """One process (and those that it starts), as a context: leaving it kills whatever is left of them."""

    def __init__(self, *command: str, environment: Mapping[str, str] | None = None) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSTASH_")}
        own |= {"PYTHONWARNINGS": "error::ResourceWarning", "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (closed on leaving)
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=own,
            start_new_session=True,
        )

    def output(self) -> str:
        """All that the processes have written so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def wait_for(self, words: str, *, times: int = 1) -> None:
        """Waits until the output has these words that often."""

        def is_there() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.output()}"
            return self.output().count(words) >= times

        try:
            until_sync(is_there, within=45, what=f"{words!r}, {times} times")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()[-3_000:]}") from None

    def end(self, with_signal: int = signal.SIGTERM) -> int:
        """Asks the process to stop, waits until it and all its children are gone, and gives its exit code."""
        family = [*psutil.Process(self.process.pid).children(recursive=True)]
        self.process.send_signal(with_signal)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not stop:\n{self.output()[-3_000:]}") from None
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []
        return code

    def expect_closed(self, *, but: str = "\0") -> None:
        """Nothing was left open. Lines with the words of `but` are somebody else's."""
        shown = "\n".join(line for line in self.output().splitlines() if but not in line)
        assert [words for words in LEFT_OPEN if words in shown] == [], shown[-3_000:]

    def expect_quiet(self, *, but: str = "\0") -> None:
        """Nothing was left open, and nothing failed."""
        self.expect_closed(but=but)
        assert "Traceback" not in self.output(), self.output()[-3_000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _kill_group(self.process.pid)
        self.process.wait(10)
        self._output.close()


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def run_script(code: str, *arguments: str, environment: Mapping[str, str] | None = None, code_expected: int = 0) -> str:
    """Runs Python code to its end and gives what it wrote, which must show nothing left open."""
    with Program("-c", code, *arguments, environment=environment) as program:
        assert program.process.wait(60) == code_expected, program.output()
        program.expect_quiet()
        return program.output()
