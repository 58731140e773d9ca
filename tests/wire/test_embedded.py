"""The embedded server starts with its first user and ends with its last, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.wait import until_sync
from toolstash.wire import embedded, keeper

USER = """
import sys
from toolstash.wire import embedded, keeper
server = embedded.ensure_server({directory!r})
print(server.socket_path, flush=True)
for line in sys.stdin:
    print(keeper.ask(server.socket_path, line.encode()).decode().strip(), flush=True)
"""


class User:
    """A process that uses an embedded server: it sends what it is told and ends with its input."""

    def __init__(self, directory: Path | None, **options: object) -> None:
        code = USER.format(directory=None if directory is None else str(directory))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,  # type: ignore[call-overload]
        )
        assert self.process.stdout is not None
        self.socket_path = self.process.stdout.readline().strip()
        assert self.socket_path

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=20)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def users() -> Iterator[list[User]]:
    made: list[User] = []
    yield made
    for user in made:
        user.kill()


def server_pids(socket_path: str) -> list[int]:
    """Server processes on that socket: the title of a server names it, the command line of a keeper holds it."""
    found: list[int] = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if socket_path in words and "wire.keeper" not in words:
            found.append(process.pid)
    return found


def keeper_pids(socket_path: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "toolstash.wire.keeper" in (process.info["cmdline"] or []) and socket_path in process.info["cmdline"]
    ]


def gone(socket_path: str) -> bool:
    return not server_pids(socket_path) and not keeper_pids(socket_path) and not Path(socket_path).exists()


def test_a_private_server_ends_with_its_process_and_leaves_nothing(users: list[User]) -> None:
    user = User(None)
    users.append(user)
    state = Path(psutil.Process(server_pids(user.socket_path)[0]).cwd())

    assert user.ask("SET a 1") == "+OK"
    user.leave()
    until_sync(lambda: gone(user.socket_path), what="the server ends")
    until_sync(lambda: not state.exists(), what="its directory goes")


def test_two_processes_share_a_directory_and_its_data_survives_both(users: list[User], tmp_path: Path) -> None:
    first, second = User(tmp_path / "data"), User(tmp_path / "x" / ".." / "data")
    users += [first, second]

    assert first.socket_path == second.socket_path
    assert first.ask("SET a kept") == "+OK"
    assert second.ask("STRLEN a") == ":4"
    first.leave()
    assert second.ask("EXISTS a") == ":1"
    second.leave()
    until_sync(lambda: gone(first.socket_path), what="the server ends with its last user")
    third = User(tmp_path / "data")
    users.append(third)
    assert third.ask("EXISTS a") == ":1"


def test_racing_starts_give_one_server(users: list[User], tmp_path: Path) -> None:
    code = USER.format(directory=str(tmp_path))
    racers = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    try:
        paths = {racer.stdout.readline().strip() for racer in racers if racer.stdout is not None}
        assert len(paths) == 1
        assert len(server_pids(paths.copy().pop())) == 1
        until_sync(lambda: len(keeper_pids(next(iter(paths)))) == 1, what="the losing keepers leave")
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    until_sync(lambda: gone(next(iter(paths))), what="the server ends after its killed users")


def test_a_killed_owner_takes_nothing_from_the_others(users: list[User], tmp_path: Path) -> None:
    owner, other = User(tmp_path), User(tmp_path)
    users += [owner, other]
    owner.ask("SET a 1")
    owner.kill()

    assert other.ask("EXISTS a") == ":1"
    other.kill()
    until_sync(lambda: gone(owner.socket_path), what="the server ends")


def test_a_killed_server_comes_back_with_its_data(users: list[User], tmp_path: Path) -> None:
    user = User(tmp_path)
    users.append(user)
    user.ask("SET a 1")
    user.ask("CONFIG SET appendfsync always")
    user.ask("SET b 1")
    pid = server_pids(user.socket_path)[0]
    os.kill(pid, signal.SIGKILL)

    until_sync(lambda: server_pids(user.socket_path) not in ([], [pid]), what="the keeper starts it again")
    until_sync(lambda: keeper.answers(user.socket_path), what="it answers")
    assert user.ask("EXISTS a b") == ":2"


def test_a_killed_keeper_is_replaced_when_the_user_leaves(users: list[User], tmp_path: Path) -> None:
    user = User(tmp_path)
    users.append(user)
    os.kill(keeper_pids(user.socket_path)[0], signal.SIGKILL)

    assert user.ask("PING") == "+PONG"
    user.leave()
    until_sync(lambda: gone(user.socket_path), what="the orphaned server ends")


def test_ctrl_c_does_not_reach_the_server(users: list[User], tmp_path: Path) -> None:
    interrupted, other = User(tmp_path, start_new_session=True), User(tmp_path)
    users += [interrupted, other]
    os.killpg(interrupted.process.pid, signal.SIGINT)
    interrupted.process.communicate(timeout=20)

    assert other.ask("PING") == "+PONG"


def test_a_very_long_directory_name(users: list[User], tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    user = User(deep)
    users.append(user)

    assert user.ask("PING") == "+PONG"
    assert (deep / "appendonlydir").is_dir()


def test_without_a_binary_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(embedded.EmbeddedServerError, match=r"toolstash\[embedded\].*redis://.*memory:"):
        embedded.find_server_binary()


def test_a_runtime_directory_of_others_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = tmp_path / f"toolstash-{os.getuid()}"
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)
    monkeypatch.setattr(embedded.tempfile, "gettempdir", lambda: str(tmp_path))

    with pytest.raises(embedded.EmbeddedServerError, match="nobody else can enter"):
        embedded.ensure_server(tmp_path / "data")


def test_a_server_that_cannot_start_shows_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded, "_options", lambda _: ["--no-such-option", "1"])

    with pytest.raises(embedded.EmbeddedServerError, match="no-such-option"):
        embedded.ensure_server(tmp_path, start_seconds=3)
