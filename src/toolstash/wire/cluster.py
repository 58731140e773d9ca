"""A Redis Cluster as one more server: the map of slots is redis-py's, each node has a pool like a plain server's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import anyio
from redis import exceptions as redis_errors
from redis.asyncio import SSLConnection
from redis.asyncio.cluster import ClusterNode, NodesManager
from redis.cluster import get_node_name
from redis.crc import key_slot

from toolstash.settings import Settings
from toolstash.wire.causes import NoTlsError, check_own_files
from toolstash.wire.server import Command, Server, connection_options, cut
from toolstash.wire.source import Source

Place = tuple[str, int]

_LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)
_OUTDATED = (redis_errors.ClusterDownError, redis_errors.ReadOnlyError)
_ASKING: Command = ("ASKING",)


class Cluster:
    """The connections of one event loop to the nodes of a cluster.

    Commands go to the primary that holds their key. Redirections are followed once, and the map learns from them;
    what is still under way then comes back as a `TryAgainError`. After a fault the next trip asks for a new map.
    """

    def __init__(self, source: Source, settings: Settings) -> None:
        self._source = source
        self._settings = settings
        self._servers: dict[Place, Server] = {}
        options = connection_options(source.arguments, settings)
        options["connection_class"] = source.connection_class
        self._given = [ClusterNode(host, port, **options) for host, port in source.nodes]
        self._map = NodesManager(list(self._given), False, options, address_remap=source.address_remap)
        self._refreshing = asyncio.Lock()
        self._is_outdated = True
        self._suspect: Place | None = None

    def slot(self, key: Any) -> int:
        """The slot of a key: commands on one slot may share a trip."""
        return key_slot(key if isinstance(key, bytes) else str(key).encode())

    async def trip(self, key: Any, commands: Sequence[Command]) -> list[Any]:
        """Sends commands at once to the node that holds `key`; a refusal stands in its place as the error.

        Commands that the node redirects are sent once more, to where it says, and only they.
        """
        owner = await self._owner(key)
        replies = await self._send(owner, commands)
        if any(isinstance(reply, redis_errors.AskError) for reply in replies):
            await self._follow(owner, commands, replies)
        return replies

    async def trip_to_all(self, command: Command) -> list[Any]:
        """The replies of all primaries to a command without a key."""
        if self._is_outdated:
            await self._refresh()
        primaries = {(holders[0].host, int(holders[0].port)) for holders in self._map.slots_cache.values() if holders}
        return [(await self._send(place, [command]))[0] for place in sorted(primaries)]

    async def forget_idle(self) -> None:
        """Closes idle connections to the node that failed last."""
        if self._suspect is not None:
            await self._server(self._suspect).forget_idle()

    async def close(self) -> None:
        """Closes all connections."""
        await asyncio.gather(self._hang_up(), *(server.close() for server in self._servers.values()))

    def abandon(self) -> None:
        """Closes sockets whose loop ended without shutting down."""
        for server in self._servers.values():
            server.abandon()

    async def _follow(self, owner: Place, commands: Sequence[Command], replies: list[Any]) -> None:
        """Replaces redirections among the replies by what the nodes answer that they point to."""
        redirected: dict[tuple[type[Any], Place], list[int]] = {}
        for position, reply in enumerate(replies):
            if isinstance(reply, redis_errors.AskError):
                redirection = cast(Any, reply)
                place = self._map.remap_host_port(redirection.host or owner[0], redirection.port)
                redirection.host, redirection.port = place
                redirected.setdefault((type(reply), place), []).append(position)
        for (kind, place), positions in redirected.items():
            has_moved = issubclass(kind, redis_errors.MovedError)
            if has_moved:
                await self._map.move_slot(replies[positions[0]])
            lead = () if has_moved else (_ASKING,)
            words = [command for position in positions for command in (*lead, commands[position])]
            answers = (await self._send(place, words))[len(lead) :: len(lead) + 1]
            for position, answer in zip(positions, answers, strict=True):
                replies[position] = _under_way(answer)

    async def _send(self, place: Place, commands: Sequence[Command]) -> list[Any]:
        try:
            replies = await self._server(place).trip("", commands)
        except _LOST:
            self._suspect, self._is_outdated = place, True
            raise
        if any(isinstance(reply, _OUTDATED) for reply in replies):
            self._is_outdated = True
        return replies

    async def _owner(self, key: Any) -> Place:
        if self._is_outdated:
            await self._refresh()
        holders = self._map.slots_cache.get(self.slot(key))
        if not holders:
            self._is_outdated = True
            raise redis_errors.SlotNotCoveredError("no node of the cluster serves the slot")
        return holders[0].host, int(holders[0].port)

    async def _refresh(self) -> None:
        """Asks the known nodes for the map, in turn, the suspect last."""
        try:
            with anyio.fail_after(self._settings.command_timeout_seconds):
                async with self._refreshing:
                    if self._is_outdated:
                        await self._ask_for_the_map()
        except TimeoutError as error:
            if issubclass(self._source.connection_class, SSLConnection) and not self._map.slots_cache:
                raise NoTlsError("no TLS connection in time") from error
            raise

    async def _ask_for_the_map(self) -> None:
        for node in self._given:
            self._map.startup_nodes.setdefault(node.name, node)
        suspect = None if self._suspect is None else get_node_name(*self._suspect)
        try:
            await self._map.initialize(last_failed_node_name=suspect)
        except Exception:
            check_own_files(self._unopened)
            raise
        finally:
            await self._hang_up()
        self._is_outdated = False

    async def _hang_up(self) -> None:
        """Closes the connections over which the map was asked for."""
        nodes: list[Any] = [*self._given, *self._map.startup_nodes.values()]
        for connection in [connection for node in nodes for connection in node._connections]:
            await cut(connection)

    def _unopened(self) -> Any:
        return self._source.connection_class(**connection_options(self._source.arguments, self._settings))

    def _server(self, place: Place) -> Server:
        if place not in self._servers:
            host, port = place
            arguments = {**self._source.arguments, "host": host, "port": port}
            self._servers[place] = Server(self._source.connection_class, arguments, self._settings)
        return self._servers[place]


def _under_way(reply: Any) -> Any:
    """A second redirection means that the slot is just moving."""
    return redis_errors.TryAgainError(str(reply)) if isinstance(reply, redis_errors.AskError) else reply
