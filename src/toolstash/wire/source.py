"""Where connections come from: a URL, or a client that the user made (its settings, never its sockets)."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from redis import connection as sync
from redis import sentinel as sync_sentinel
from redis.asyncio import connection as aio
from redis.asyncio import sentinel as aio_sentinel
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster as SyncCluster

from toolstash.wire.url_options import fault_of_options

URL_FORMS: Final = (
    "redis://host:port/db, rediss://host:port/db, redis+cluster://host:port,host:port, rediss+cluster://host:port, "
    "redis+sentinel://host:port,host:port/service/db, rediss+sentinel://host:port,host:port/service/db, "
    "unix:///path/to/socket?db=0, embedded:, embedded:<directory>, memory:"
)
_SENTINEL: Final = ("redis+sentinel://", "rediss+sentinel://")
_SENTINEL_PORT: Final = 26379
_OF_THE_SERVICE: Final = frozenset(["username", "password", "credential_provider", "db", "client_name"])
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
    sync_sentinel.SentinelManagedConnection: aio_sentinel.SentinelManagedConnection,
    sync_sentinel.SentinelManagedSSLConnection: aio_sentinel.SentinelManagedSSLConnection,
}


@dataclass(frozen=True)
class Source:
    """How to open a connection.

    `embedded_directory` is None for a server elsewhere, "" for a private embedded one. `nodes` are hosts and ports of
    a cluster of which at least one should answer, and `address_remap` turns its nodes' addresses into reachable ones.
    `sentinels` know where the primary of `service` is; an answer counts when they see so many others.
    """

    connection_class: type[aio.AbstractConnection]
    arguments: dict[str, Any]
    described: str
    embedded_directory: str | None = None
    nodes: tuple[tuple[str, int], ...] = ()
    address_remap: Callable[[tuple[str, int]], tuple[str, int]] | None = None
    sentinels: tuple[Source, ...] = ()
    service: str = ""
    least_other_sentinels: int = 0

    @property
    def is_private(self) -> bool:
        """Whether only this process (and its forks) can see the data."""
        return self.embedded_directory == ""


def source_of_url(url: str) -> Source:
    """Reads a URL.

    Raises:
        ValueError: An unknown or a malformed form; lists the known ones.
    """
    if url.startswith("embedded:"):
        directory = unquote(url.removeprefix("embedded:"))
        return Source(aio.UnixDomainSocketConnection, {"path": ""}, url, embedded_directory=directory)
    if url.startswith(_SENTINEL):
        return _source_of_sentinel_url(url)
    if url.startswith(_CLUSTER):
        return _source_of_cluster_url(url)
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise _malformed(url, "is not a store URL")
    arguments = _parsed(url, url)
    connection_class = arguments.pop("connection_class", aio.Connection)
    return Source(connection_class, _without_ours(arguments), _without_secrets(url))


def _source_of_cluster_url(url: str) -> Source:
    parsed, path = _parsed_hosts(url)
    if not all(one.get("host") for one in parsed) or parsed[0].pop("db", 0) or path.strip("/") not in ("", "0"):
        raise _malformed(url, "must name hosts and no database but 0")
    nodes = tuple((one["host"], one.get("port", 6379)) for one in parsed)
    options = {name: value for name, value in parsed[0].items() if name not in ("host", "port")}
    connection_class = options.pop("connection_class", aio.Connection)
    return Source(connection_class, _without_ours(options), _without_secrets(url), nodes=nodes)


def _source_of_sentinel_url(url: str) -> Source:
    parsed, path = _parsed_hosts(url)
    service, _, database = unquote(path).removeprefix("/").partition("/")
    if not all(one.get("host") for one in parsed) or not service or not re.fullmatch("[0-9]*", database):
        raise _malformed(url, "must name hosts of sentinels, a service and at most the number of a database")
    options = _without_ours({name: value for name, value in parsed[0].items() if name not in ("host", "port")})
    account = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    shared = {name: value for name, value in options.items() if name not in _OF_THE_SERVICE}
    is_tls = url.startswith("rediss")
    asking = [{**shared, **account, "host": one["host"], "port": one.get("port", _SENTINEL_PORT)} for one in parsed]
    return Source(
        aio_sentinel.SentinelManagedSSLConnection if is_tls else aio_sentinel.SentinelManagedConnection,
        {**options, "db": int(database)} if database else options,
        _without_secrets(url),
        sentinels=tuple(Source(aio.SSLConnection if is_tls else aio.Connection, one, "a sentinel") for one in asking),
        service=service,
    )


def _parsed_hosts(url: str) -> tuple[list[dict[str, Any]], str]:
    """What a URL with several hosts says of each of them, and its path."""
    scheme, _, rest = url.partition("://")
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    account, at, hosts = authority.rpartition("@")
    path, mark, query = rest[len(authority) :].partition("?")
    plain = scheme.partition("+")[0]
    return [_parsed(f"{plain}://{account}{at}{host}{mark}{query}", url) for host in hosts.split(",")], path


def _parsed(url: str, given: str) -> dict[str, Any]:
    """What redis-py reads in a URL of one host; `given` is the whole one that it is a part of."""
    scheme = given.partition("://")[0]
    fault = _fault(url, scheme) if "#" not in given else "has a '#', which must be percent-encoded (%23)"
    if fault is not None:  # without the URL, in which a password may stand where a port belongs
        raise _malformed(f"{scheme}://…", fault)
    return dict(aio.parse_url(url))


def _fault(url: str, scheme: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "has a host of the wrong form"
    path = unquote(parts.path)
    if re.search(r"\s", parts.hostname or ""):
        return "has a host with a space"
    if scheme == "unix":
        if parts.hostname or not path.strip("/"):
            return "must name the path of a socket behind three slashes"
    elif not _has_port(parts):
        return (
            "has a port that is not a number from 1 to 65535 "
            "(or a user name or password whose special characters are not percent-encoded)"
        )
    elif not re.fullmatch("/?|/[0-9]{1,9}/?", path):
        return "has a database that is not a number from 0"
    return fault_of_options(scheme, parts.query)


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _malformed(url: str, fault: str) -> ValueError:
    return ValueError(f"{_without_secrets(url)!r} {fault}; known forms: {URL_FORMS}")


def source_of_client(client: Any) -> Source:
    """Takes the settings of a redis-py client, sync or async, cluster or not, with or without `decode_responses`.

    Raises:
        TypeError: Not a client with a plain connection pool, nor one of a cluster.
    """
    if isinstance(client, (SyncCluster, AsyncCluster)):
        return _source_of_cluster_client(client)
    pool = getattr(client, "connection_pool", None)
    connection_class = getattr(pool, "connection_class", None)
    if pool is None or connection_class is None:
        raise TypeError(
            f"a store needs a URL or a client (Redis or RedisCluster, of redis or redis.asyncio), "
            f"not {type(client).__name__}; "
            f"URL forms: {URL_FORMS}"
        )
    async_class = _async_counterpart(connection_class)
    arguments = _accepted(async_class, _without_ours(dict(pool.connection_kwargs)))
    source = Source(async_class, arguments, f"a {type(client).__name__} client")
    is_watched = isinstance(pool, (sync_sentinel.SentinelConnectionPool, aio_sentinel.SentinelConnectionPool))
    return _watched(source, pool) if is_watched else source


def _watched(source: Source, pool: Any) -> Source:
    """Adds whom to ask for the primary."""
    if not pool.is_master:
        raise TypeError("a store writes: pass Sentinel(…).master_for(…), not a client of replicas")
    manager = pool.sentinel_manager
    forced = manager._force_master_ip
    return replace(
        source,
        sentinels=tuple(source_of_client(sentinel) for sentinel in manager.sentinels),
        service=pool.service_name,
        least_other_sentinels=manager.min_other_sentinels,
        address_remap=None if forced is None else partial(_at_host, forced),
    )


def _at_host(host: str, place: tuple[str, int]) -> tuple[str, int]:
    return host, place[1]


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
    scheme, separator, rest = url.partition("://")
    place = rest.partition("?")[0]
    if "@" in rest:  # one behind a question mark may be that of a password with a question mark
        return f"{scheme}{separator}…@{place.rpartition('@')[2]}" if "@" in place else f"{scheme}{separator}…"
    return f"{scheme}{separator}{place}"[:200]
