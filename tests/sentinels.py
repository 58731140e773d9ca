"""A primary, its replica and three sentinels that watch them: real servers, which end with the tests."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import redis

from tests.servers import RealServer, _command, _die_with_the_tests, _free_port, start_server
from tests.wait import until_sync

BINARY = "redis-8.2-plain"
SERVICE = "papers"


class RealSentinel:
    """One sentinel process on a free port of the loopback."""

    def __init__(self, primary: RealServer) -> None:
        self.port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="ts-"))
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self._folder}",
            f"logfile {self._folder / 'log'}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} 700",
            f"sentinel failover-timeout {SERVICE} 2000",
        ]
        (self._folder / "sentinel.conf").write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        atexit.register(self.stop)

    def start(self) -> None:
        """Starts the process and waits until it listens."""
        self._process = subprocess.Popen(
            [*_command(BINARY), str(self._folder / "sentinel.conf"), "--sentinel"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_the_tests,
        )
        until_sync(lambda: self.command("PING") is not None, what="a sentinel answers")

    def command(self, *words: Any) -> Any:
        """The raw reply of the sentinel, or the error that it replied with; None where nobody listens."""
        with redis.Redis(port=self.port, protocol=2) as client:
            client.response_callbacks.clear()
            try:
                return client.execute_command(*words)
            except redis.AuthenticationError as error:
                return error
            except redis.ConnectionError:
                return None
            except redis.ResponseError as error:
                return error

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def signal(self, number: int) -> None:
        """Sends a signal: SIGSTOP for one that hangs."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Ends the process and removes its directory."""
        if self._process is not None:
            self.kill()
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)


class RealService:
    """Two servers and three sentinels, of which two have to agree. `url` is a store's."""

    def __init__(self) -> None:
        first = start_server(BINARY)
        second = start_server(BINARY, "--replicaof", "127.0.0.1", str(first.port))
        self.servers = [first, second]
        until_sync(lambda: self.follows(second), what="the replica has everything")
        self.sentinels = [RealSentinel(first) for _ in range(3)]
        self.url = "redis+sentinel://" + ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels) + f"/{SERVICE}"

    def until_settled(self) -> None:
        """Waits until there is one primary that the other follows, and every sentinel knows all of them."""
        until_sync(lambda: all(map(self._sees_all, self.sentinels)), within=40, what="the sentinels know all")
        until_sync(lambda: self.follows(self.replica), within=40, what="the replica has everything")

    def _sees_all(self, sentinel: RealSentinel) -> bool:
        flat = sentinel.command("SENTINEL", "MASTER", SERVICE)
        state = dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else {}
        place = int(state.get(b"port", 0))
        return (place, state.get(b"num-slaves"), state.get(b"num-other-sentinels"), state.get(b"flags")) == (
            self.primary.port,
            b"1",
            b"2",
            b"master",
        )

    def command(self, server: RealServer, *words: Any) -> Any:
        """Runs a command on one server and returns its raw reply."""
        with redis.Redis(port=server.port, protocol=2) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def follows(self, server: RealServer) -> bool:
        """Whether a server is a replica and in touch with its primary."""
        return b"master_link_status:up" in self.command(server, "INFO", "replication")

    def is_primary(self, server: RealServer) -> bool:
        """Whether a server takes itself for the primary."""
        return self.command(server, "ROLE")[0] == b"master"

    @property
    def primary(self) -> RealServer:
        """Whom most sentinels name as the primary."""
        asked = [one.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE) for one in self.sentinels]
        ports = [int(reply[1]) for reply in asked if isinstance(reply, list)]
        port = max(ports, key=ports.count)
        return next(server for server in self.servers if server.port == port)

    @property
    def replica(self) -> RealServer:
        """The other one."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def replicated(self) -> bool:
        """Whether the replica has all that the primary acknowledged."""
        role = self.command(self.primary, "ROLE")
        return bool(role[2]) and int(role[2][0][2]) >= int(role[1])

    def begin_failover(self) -> None:
        """Asks for a planned change of the primary as soon as the sentinels are ready for one."""
        until_sync(
            lambda: self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE) == b"OK",
            within=30,
            what="the sentinels begin a failover",
        )

    def is_moved_to(self, server: RealServer) -> bool:
        """Whether a server is the primary, for itself and for most sentinels."""
        return self.is_primary(server) and self.primary is server

    def stop(self) -> None:
        """Ends all of them."""
        for one in (*self.sentinels, *self.servers):
            one.stop()
