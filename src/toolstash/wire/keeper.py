"""The keeper of an embedded server: a detached process that starts it and stops it after its last user.

    python keeper.py <state directory> <"private" or "kept"> <socket> <server binary> [server options…]

Three locked files in the state directory say who lives; the kernel drops a lock with its last holder, however that
one ends:

    users.lock    shared, held by each process that uses the server
    keeper.lock   held by the keeper: there is one at a time
    server.lock   held by the server, which inherits it: no second one can start on the same data

Imports nothing of toolstash and little of Python, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
import time

USERS_LOCK = "users.lock"
KEEPER_LOCK = "keeper.lock"
SERVER_LOCK = "server.lock"
SOCKET_MARK = "server.socket"
SERVER_LOG = "server.log"
PRIVATE_PREFIX = "private-"
PRIVATE, KEPT = "private", "kept"

ANOTHER_IS_AT_WORK = 3
"""Exit status of a keeper that found another one."""

STOP = b"SHUTDOWN NOSAVE\r\n"
"""Flushes the append-only file, and is taken also while a script holds the server up (NOSAVE is about dumps)."""

STOP_SECONDS = 20.0
QUICK_SECONDS = 5.0
MOST_QUICK_ENDS = 3
RETRY_SECONDS = 0.02
MOST_LOG_BYTES = 200_000


def answers(socket_path: str, timeout: float = 1.0) -> bool:
    """Whether a server answers on the socket and is done loading. A refusal (busy, disk full) is an answer too."""
    reply = ask(socket_path, b"PING\r\n", timeout)
    return reply != b"" and not reply.startswith(b"-LOADING")


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


def take(path: str, operation: int) -> int | None:
    """Locks a file (`fcntl.flock`), which is made if need be.

    Returns:
        Its descriptor, which holds the lock until it is closed; None when another holds it, or when the file was
        removed meanwhile and the lock is on nothing.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, operation)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def is_held(path: str) -> bool:
    """Whether somebody holds the lock of that file for itself."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def marked_socket(state: str) -> str:
    """The socket on which the server of a state directory was started last; "" if never."""
    try:
        with open(os.path.join(state, SOCKET_MARK)) as mark:
            return mark.read()
    except FileNotFoundError:
        return ""


def remove_private(state: str) -> None:
    """Removes the state of a private server: renamed first, so that it is there whole or not at all."""
    import shutil

    with contextlib.suppress(OSError):
        os.rename(state, f"{state}.gone")
        shutil.rmtree(f"{state}.gone", ignore_errors=True)


class Keeper:
    """Starts the server (or adopts one that a killed keeper left), keeps it running, and stops it in the end."""

    def __init__(self, state: str, kind: str, socket_path: str, command: list[str]) -> None:
        self._state = state
        self._is_private = kind == PRIVATE
        self._socket = socket_path
        self._command = command
        self._pid: int | None = None  # of a server that is our child
        self._users_are_gone = threading.Event()

    def run(self) -> None:
        """Returns when the server is down: after the last user, or after it ended several times within seconds."""
        quick_ends = 0
        try:
            self._start_unless_running()
            threading.Thread(target=self._stop_after_the_last_user, daemon=True).start()
            while True:
                began = time.monotonic()
                self._wait_until_down()
                quick_ends = quick_ends + 1 if time.monotonic() - began < QUICK_SECONDS else 0
                if self._users_are_gone.is_set() or quick_ends == MOST_QUICK_ENDS:
                    break
                self._start_unless_running()
        finally:
            self._clean_up()

    def _start_unless_running(self) -> None:
        lock = take(self._path(SERVER_LOCK), fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is None:
            self._socket = marked_socket(self._state) or self._socket
            return
        try:
            self._mark_socket()
            os.set_inheritable(lock, True)
            end_signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            self._pid = os.posix_spawn(
                self._command[0], self._command, os.environ, setsigmask=(), setsigdef=end_signals
            )
        finally:
            os.close(lock)

    def _mark_socket(self) -> None:
        with open(self._path(f"{SOCKET_MARK}.new"), "w") as mark:
            mark.write(self._socket)
        os.replace(mark.name, self._path(SOCKET_MARK))

    def _wait_until_down(self) -> None:
        lock = os.open(self._path(SERVER_LOCK), os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.close(lock)
        if self._pid is not None:
            os.waitpid(self._pid, 0)
            self._pid = None

    def _stop_after_the_last_user(self) -> None:
        if self._is_private:
            sweep_abandoned(os.path.dirname(self._state))
        with contextlib.suppress(FileNotFoundError):  # or the directory was removed: nobody can come any more
            take(self._path(USERS_LOCK), fcntl.LOCK_EX)
        self._users_are_gone.set()
        deadline = time.monotonic() + STOP_SECONDS
        while (seconds_left := deadline - time.monotonic()) > 0:  # again: it may not be listening yet
            ask(self._socket, STOP, seconds_left)
            time.sleep(RETRY_SECONDS)  # this process ends with the server, here or in between
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)

    def _clean_up(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if marked_socket(self._state) == self._socket:  # not so after the directory was removed and made again
                os.unlink(self._path(SOCKET_MARK))
            os.unlink(self._socket)
        if self._is_private and self._users_are_gone.is_set():
            remove_private(self._state)

    def _path(self, name: str) -> str:
        return os.path.join(self._state, name)


def sweep_abandoned(runtime: str) -> None:
    """Ends the private servers whose keeper and users were all killed, and removes what machine crashes left."""
    for name in os.listdir(runtime):
        if name.startswith(PRIVATE_PREFIX):
            with contextlib.suppress(OSError):
                _sweep(os.path.join(runtime, name))


def _sweep(state: str) -> None:
    held: list[int] = []
    try:
        for name, seconds in ((USERS_LOCK, 0.0), (KEEPER_LOCK, 0.0), (SERVER_LOCK, QUICK_SECONDS)):
            if name == SERVER_LOCK:
                ask(marked_socket(state), STOP, QUICK_SECONDS)
            lock = _take_within(seconds, os.path.join(state, name))
            if lock is None:
                return
            held.append(lock)
        remove_private(state)
    finally:
        for lock in held:
            os.close(lock)


def _take_within(seconds: float, path: str) -> int | None:
    deadline = time.monotonic() + seconds
    while (lock := take(path, fcntl.LOCK_EX | fcntl.LOCK_NB)) is None and time.monotonic() < deadline:
        time.sleep(RETRY_SECONDS)
    return lock


def main(state: str, kind: str, socket_path: str, *command: str) -> None:
    """Becomes the keeper of a state directory; exits with `ANOTHER_IS_AT_WORK` when it has one.

    Returns to the caller's shell as soon as the lock is held: a fork carries it on.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignoring parent would hide the end of the server
    for end_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(end_signal, signal.SIG_IGN)
    os.umask(0o077)
    if take(os.path.join(state, KEEPER_LOCK), fcntl.LOCK_EX | fcntl.LOCK_NB) is None:
        sys.exit(ANOTHER_IS_AT_WORK)
    if os.fork():
        os._exit(0)
    if os.fstat(sys.stderr.fileno()).st_size > MOST_LOG_BYTES:
        os.ftruncate(sys.stderr.fileno(), 0)
    Keeper(state, kind, socket_path, list(command)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
