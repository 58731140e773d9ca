"""The embedded server starts with its first user and ends with its last, whoever is killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis.asyncio

from tests.wait import until_sync
from toolstash import RedisStore
from toolstash.wire import embedded, keeper

USER = """
import sys
from toolstash.wire import embedded, keeper
server = embedded.ensure_server({directory!r})
print(server.socket_path, flush=True)
for line in sys.stdin:
    print(keeper.ask(server.socket_path, line.encode()).decode().strip(), flush=True)
"""


def start_user(directory: Path | None, **options: Any) -> subprocess.Popen[str]:
    code = USER.format(directory=None if directory is None else str(directory))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, **options)


class User:
    """A process that uses an embedded server: it sends what it is told and ends with its input."""

    def __init__(self, directory: Path | None, **options: Any) -> None:
        self.process = start_user(directory, **options)
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
        if socket_path in words and "keeper.py" not in words:
            found.append(process.pid)
    return found


def keeper_pids(socket_path: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if socket_path in (words := process.info["cmdline"] or []) and any("keeper.py" in word for word in words)
    ]


def kill_keeper(socket_path: str, state: Path) -> None:
    [pid] = keeper_pids(socket_path)
    os.kill(pid, signal.SIGKILL)
    until_sync(lambda: not keeper.is_held(str(state / keeper.KEEPER_LOCK)), what="the killed keeper is gone")


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
    racers = [start_user(tmp_path) for _ in range(6)]
    try:
        paths = {racer.stdout.readline().strip() for racer in racers if racer.stdout is not None}
        assert len(paths) == 1
        assert len(server_pids(paths.copy().pop())) == 1
        until_sync(lambda: len(keeper_pids(next(iter(paths)))) == 1, what="the losing keepers leave")
        assert [child for racer in racers for child in psutil.Process(racer.pid).children()] == []
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
    kill_keeper(user.socket_path, tmp_path)

    assert user.ask("PING") == "+PONG"
    user.leave()
    until_sync(lambda: gone(user.socket_path), what="the orphaned server ends")


def test_a_busy_server_whose_keeper_was_killed_gets_no_second_one_beside_it(users: list[User], tmp_path: Path) -> None:
    user = User(tmp_path)
    users.append(user)
    server = psutil.Process(server_pids(user.socket_path)[0])
    kill_keeper(user.socket_path, tmp_path)
    server.suspend()
    late = start_user(tmp_path)
    try:
        until_sync(lambda: keeper_pids(user.socket_path), what="a new keeper comes")
        with pytest.raises(embedded.EmbeddedServerError, match="did not answer in time"):
            embedded.ensure_server(tmp_path, start_seconds=2.5)
        assert server_pids(user.socket_path) == [server.pid]
        server.resume()
        assert late.stdout is not None
        assert late.stdout.readline().strip() == user.socket_path
        assert server_pids(user.socket_path) == [server.pid]
    finally:
        server.resume()
        late.kill()
        late.communicate()


def test_a_server_that_is_held_up_by_a_script_counts_as_running(users: list[User], tmp_path: Path) -> None:
    user = User(tmp_path)
    users.append(user)
    user.ask("CONFIG SET busy-reply-threshold 20")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(user.socket_path)
        caller.sendall(b'EVAL "while true do end" 0\r\n')
        until_sync(lambda: keeper.ask(user.socket_path, b"PING\r\n").startswith(b"-BUSY"), what="a script runs")

        users.append(User(tmp_path))
        assert users[1].ask("PING").startswith("-BUSY")
        for each in users:
            each.leave()
        until_sync(lambda: gone(user.socket_path), what="the server ends though the script runs", within=10)


def test_a_user_killed_while_the_server_starts_does_not_hold_up_the_next(users: list[User], tmp_path: Path) -> None:
    hasty = start_user(tmp_path)
    until_sync(lambda: keeper.is_held(str(tmp_path / keeper.SERVER_LOCK)), what="the server is being started")
    hasty.kill()
    hasty.communicate()
    users.append(User(tmp_path))

    assert users[0].ask("PING") == "+PONG"


def test_a_private_server_whose_keeper_and_user_were_killed_is_swept_by_the_next(users: list[User]) -> None:
    abandoned = User(None)
    users.append(abandoned)
    kill_keeper(abandoned.socket_path, Path(abandoned.socket_path).parent)
    abandoned.kill()
    assert server_pids(abandoned.socket_path)
    users.append(User(None))

    until_sync(lambda: gone(abandoned.socket_path), what="the orphaned server ends")
    until_sync(lambda: not Path(abandoned.socket_path).parent.exists(), what="its directory goes")
    assert users[1].ask("PING") == "+PONG"


def test_files_of_the_user_in_the_directory_stay(users: list[User], tmp_path: Path) -> None:
    (tmp_path / "private").write_text("mine")
    user = User(tmp_path)
    users.append(user)
    user.leave()
    until_sync(lambda: gone(user.socket_path), what="the server ends")

    assert (tmp_path / "private").read_text() == "mine"
    assert not (tmp_path / keeper.SOCKET_MARK).exists()


def test_a_process_with_another_tmpdir_finds_the_server(users: list[User], tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="other-") as other:
        users += [User(tmp_path), User(tmp_path, env=os.environ | {"TMPDIR": other})]

        assert users[0].socket_path == users[1].socket_path


def test_a_directory_removed_and_made_again_gets_a_new_server(users: list[User], tmp_path: Path) -> None:
    directory = tmp_path / "data"
    old = User(directory)
    users.append(old)
    old.ask("SET a 1")
    shutil.rmtree(directory)
    new = User(directory)
    users.append(new)

    assert new.socket_path != old.socket_path
    assert new.ask("EXISTS a") == ":0"
    old.leave()
    until_sync(lambda: gone(old.socket_path), what="the old server ends")
    assert new.ask("PING") == "+PONG"
    assert len(server_pids(new.socket_path)) == 1


FORK = r"""
import os
from toolstash.wire import embedded, keeper
parents = embedded.ensure_server(None).socket_path
keeper.ask(parents, b"SET a 1\r\n")
if os.fork():
    os.wait()
else:
    childs = embedded.ensure_server(None).socket_path
    print(childs == parents, keeper.ask(childs, b"EXISTS a\r\n").decode().strip(), flush=True)
"""


def test_a_fork_uses_the_private_server_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", FORK], capture_output=True, text=True, timeout=30)

    assert (done.stdout.strip(), done.stderr) == ("True :1", "")


def test_one_process_and_many_threads_share_one_private_server() -> None:
    with ThreadPoolExecutor(8) as pool:
        servers = set(pool.map(lambda _: embedded.ensure_server(None), range(32)))

    [server] = servers
    assert server.private
    assert server.directory is None
    assert len(server_pids(server.socket_path)) == 1


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


WINDOWS = """
import ctypes, dataclasses, hashlib, importlib.util, platform, shutil, subprocess, sys, tempfile
sys.platform = "win32"
sys.modules["fcntl"] = None
from toolstash.wire import embedded
try:
    embedded.ensure_server(None)
except embedded.EmbeddedServerError as error:
    print(error)
"""


def test_windows_can_import_it_and_is_told_what_to_use_instead() -> None:
    done = subprocess.run([sys.executable, "-c", WINDOWS], capture_output=True, text=True, timeout=30)

    assert "Windows" in done.stdout, done.stderr
    assert "redis://" in done.stdout


def test_a_path_that_is_no_directory_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(embedded.EmbeddedServerError, match="cannot use"):
        embedded.ensure_server(tmp_path / "file")
    with pytest.raises(ValueError, match="no name"):
        embedded.ensure_server("")


def test_a_runtime_directory_of_others_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="open-") as short:
        runtime = Path(short) / f"toolstash-{os.getuid()}"
        runtime.mkdir()
        runtime.chmod(0o777)
        monkeypatch.setattr(embedded.tempfile, "gettempdir", lambda: short)

        with pytest.raises(embedded.EmbeddedServerError, match="nobody else can enter"):
            embedded.ensure_server(tmp_path / "data")


def test_a_server_that_cannot_start_shows_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded, "_options", lambda _: ["--no-such-option", "1"])

    with pytest.raises(embedded.EmbeddedServerError, match="no-such-option"):
        embedded.ensure_server(tmp_path, start_seconds=3)


async def test_other_clients_may_use_the_server(tmp_path: Path) -> None:
    async with RedisStore(f"embedded:{tmp_path}") as store:
        path = await store.socket_path()
        async with redis.asyncio.Redis(unix_socket_path=path) as client:
            assert await client.ping()
    async with RedisStore("redis://user:secret@127.0.0.1:1") as elsewhere:
        with pytest.raises(ValueError, match="no embedded server") as refused:
            await elsewhere.socket_path()
    assert "secret" not in str(refused.value)
