"""The keeper of an embedded server: a detached process that starts it and stops it after its last user.

    python -m toolstash.wire.keeper <state directory> <socket> <server binary> [server options…]

Every user process holds a shared lock on `users.lock`; the keeper waits for the exclusive one. The kernel drops a
lock with its process, so a user that is killed counts as gone. One keeper at a time: it holds `keeper.lock`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

USERS_LOCK = "users.lock"
KEEPER_LOCK = "keeper.lock"
SERVER_LOG = "server.log"
PRIVATE_MARK = "private"
STOP_SECONDS = 20.0
QUICK_SECONDS = 5.0
MOST_QUICK_STARTS = 3


def answers(socket_path: str, timeout: float = 1.0) -> bool:
    """Whether a server answers PING on the socket, and is done loading."""
    return ask(socket_path, b"PING\r\n", timeout).startswith(b"+PONG")


def ask(socket_path: str, command: bytes, timeout: float = 1.0) -> bytes:
    """Sends one inline command; the first bytes of the reply, or b"" when nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(socket_path)
            connection.sendall(command)
            return connection.recv(1_000)
    except OSError:
        return b""


def is_alive(state: Path) -> bool:
    """Whether a keeper is at work in the state directory."""
    try:
        lock = os.open(state / KEEPER_LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


class Keeper:
    """Starts the server (or adopts one that a killed keeper left), keeps it running, and stops it in the end."""

    def __init__(self, state: Path, socket_path: str, command: list[str]) -> None:
        self._state = state
        self._socket = socket_path
        self._command = command
        self._server: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Returns when the last user is gone and the server is down; at once if another keeper is at work."""
        keeper_lock = os.open(self._state / KEEPER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(keeper_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        threading.Thread(target=self._supervise, daemon=True).start()
        users = os.open(self._state / USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(users, fcntl.LOCK_EX)
        self._stopping.set()
        self._stop()
        Path(self._socket).unlink(missing_ok=True)
        if (self._state / PRIVATE_MARK).exists():
            shutil.rmtree(self._state, ignore_errors=True)

    def _supervise(self) -> None:
        """A server that dies is started again; one that dies three times within seconds is not."""
        while answers(self._socket) and not self._stopping.is_set():
            time.sleep(0.5)
        starts: list[float] = []
        while not self._stopping.is_set():
            starts = [at for at in starts if time.monotonic() - at < QUICK_SECONDS]
            if len(starts) == MOST_QUICK_STARTS:
                os._exit(1)
            starts.append(time.monotonic())
            self._server = self._start()
            self._server.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        Path(self._socket).unlink(missing_ok=True)
        with open(self._state / SERVER_LOG, "ab") as log:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._state)

    def _stop(self) -> None:
        """Asks the server to flush and end; kills it when it does not."""
        ask(self._socket, b"SHUTDOWN\r\n", timeout=STOP_SECONDS)
        if self._server is not None:
            try:
                self._server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()


if __name__ == "__main__":
    for stop_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop_signal, signal.SIG_IGN)
    Keeper(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).run()
