"""Where connections come from: a URL, or a client that the user made (its settings, never its sockets)."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from redis import connection as sync
from redis.asyncio import connection as aio
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster as SyncCluster

URL_FORMS: Final = (
    "redis://host:port/db, rediss://host:port/db, redis+cluster://host:port,host:port, rediss+cluster://host:port, "
    "unix:///path/to/socket?db=0, embedded:, embedded:<directory>, memory:"
)
_LATER: Final = ("redis+sentinel:", "rediss+sentinel:")
_CLUSTER: Final = ("redis+cluster://", "rediss+cluster://")
_OURS: Final = frozenset(
    [
        "decode_responses",
        "encoding",
        "encoding_errors",
        "protocol",
        "legacy_responses",
        "retry",
        "retry_on_timeout",
        "retry_on_error",
        "retry_on_error",
        "health_check_interval",
        "socket_timeout",
        "socket_connect_timeout",
        "max_connections",
        "maint_notifications_config",
        "event_dispatcher",
        "himport_registry",
        "parser_class",
        "lib_name",
        "lib_version",
        "driver_info",
        "connection_class",
        "connection_pool",
        "auto_close_connection_pool",
        "single_connection_client",
        "cache",
        "cache_config",
    ]
)
_SAME_NAME: Final[dict[type, type]] = {
    sync.Connection: aio.Connection,
    sync.SSLConnection: aio.SSLConnection,
    sync.UnixDomainSocketConnection: aio.UnixDomainSocketConnection,
}


@dataclass(frozen=True)
class Source:
    """How to open a connection.

    `embedded_directory` is None for a server elsewhere, "" for a private embedded one. `nodes` are hosts and ports of
    a cluster of which at least one should answer, and `address_remap` turns its nodes' addresses into reachable ones.
    """

    connection_class: type[aio.AbstractConnection]
    arguments: dict[str, Any]
    described: str
    embedded_directory: str | None = None
    nodes: tuple[tuple[str, int], ...] = ()
    address_remap: Callable[[tuple[str, int]], tuple[str, int]] | None = None

    @property
    def is_private(self) -> bool:
        """Whether only this process (and its forks) can see the data."""
        return self.embedded_directory == ""


def source_of_url(url: str) -> Source:
    """Reads a URL.

    Raises:
        ValueError: An unknown form, or one that this version does not serve yet; lists the known ones.
    """
    if url.startswith("embedded:"):
        directory = unquote(url.removeprefix("embedded:"))
        return Source(aio.UnixDomainSocketConnection, {"path": ""}, url, embedded_directory=directory)
    if url.startswith(_LATER):
        raise ValueError(f"{url.partition(':')[0]}: is not served by this version; known forms: {URL_FORMS}")
    if url.startswith(_CLUSTER):
        return _source_of_cluster_url(url)
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError(f"{_without_secrets(url)!r} is not a store URL; known forms: {URL_FORMS}")
    arguments: dict[str, Any] = dict(aio.parse_url(url))
    connection_class = arguments.pop("connection_class", aio.Connection)
    return Source(connection_class, _without_ours(arguments), _without_secrets(url))


def _source_of_cluster_url(url: str) -> Source:
    scheme, _, rest = url.partition("+cluster://")
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    account, at, hosts = authority.rpartition("@")
    tail = rest[len(authority) :]
    urls = [f"{scheme}://{account}{at}{host}{tail}" for host in hosts.split(",")]
    parsed: list[dict[str, Any]] = [dict(aio.parse_url(one)) for one in urls]
    if not all(one.get("host") for one in parsed) or any(one.pop("db", 0) for one in parsed):
        shown = _without_secrets(url)
        raise ValueError(f"{shown!r} must name hosts and no database but 0; known forms: {URL_FORMS}")
    nodes = tuple((one.pop("host"), one.pop("port", 6379)) for one in parsed)
    connection_class = parsed[0].pop("connection_class", aio.Connection)
    return Source(connection_class, _without_ours(parsed[0]), _without_secrets(url), nodes=nodes)


def source_of_client(client: Any) -> Source:
    """Takes the settings of a redis-py client, sync or async, cluster or not, with or without `decode_responses`.

    Raises:
        TypeError: Not a client with a plain connection pool, nor one of a cluster.
    """
    if isinstance(client, (SyncCluster, AsyncCluster)):
        return _source_of_cluster_client(client)
    pool = getattr(client, "connection_pool", None)
    connection_class = getattr(pool, "connection_class", None)
    if pool is None or connection_class is None or "Sentinel" in type(pool).__name__:
        raise TypeError(
            f"a store needs a URL or a client (Redis or RedisCluster, of redis or redis.asyncio), "
            f"not {type(client).__name__}; "
            f"URL forms: {URL_FORMS}"
        )
    async_class = _async_counterpart(connection_class)
    arguments = _accepted(async_class, _without_ours(dict(pool.connection_kwargs)))
    return Source(async_class, arguments, f"a {type(client).__name__} client")


def _source_of_cluster_client(client: Any) -> Source:
    nodes_manager = client.nodes_manager
    arguments = dict(nodes_manager.connection_kwargs)
    connection_class = arguments.pop("connection_class", aio.Connection)
    if arguments.pop("ssl", False):
        connection_class = aio.SSLConnection
    for name in ("host", "port", "db", "redis_connect_func"):  # a node's own, and what is for reading from replicas
        arguments.pop(name, None)
    arguments = _accepted(connection_class, _without_ours(arguments))
    nodes = tuple((node.host, int(node.port)) for node in nodes_manager.startup_nodes.values())
    described = f"a {type(client).__name__} client"
    return Source(connection_class, arguments, described, nodes=nodes, address_remap=nodes_manager.address_remap)


def _async_counterpart(connection_class: type) -> type[aio.AbstractConnection]:
    if issubclass(connection_class, aio.AbstractConnection):
        return connection_class
    if connection_class in _SAME_NAME:
        return _SAME_NAME[connection_class]
    if connection_class.__module__.startswith("fakeredis"):
        return importlib.import_module("fakeredis").FakeAsyncRedisConnection
    raise TypeError(f"connections of {connection_class.__name__} have no asyncio form; pass a URL instead")


def _without_ours(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in _OURS}


def _accepted(connection_class: type, arguments: dict[str, Any]) -> dict[str, Any]:
    if connection_class.__module__.startswith("fakeredis"):
        return arguments
    names = {name for base in connection_class.__mro__ for name in inspect.signature(base.__init__).parameters}
    return {name: value for name, value in arguments.items() if name in names}


def _without_secrets(url: str) -> str:
    scheme, separator, rest = url.partition("?")[0].partition("://")
    return f"{scheme}{separator}…@{rest.rpartition('@')[2]}" if "@" in rest else f"{scheme}{separator}{rest}"[:200]
