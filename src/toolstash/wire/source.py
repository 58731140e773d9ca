"""Where connections come from: a URL, or a client that the user made (its settings, never its sockets)."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from redis import connection as sync
from redis.asyncio import connection as aio

URL_FORMS: Final = (
    "redis://host:port/db, rediss://host:port/db, unix:///path/to/socket?db=0, embedded:, embedded:<directory>, memory:"
)
_LATER: Final = ("redis+cluster:", "rediss+cluster:", "redis+sentinel:", "rediss+sentinel:")
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
    """How to open a connection. `embedded_directory` is None for a server elsewhere, "" for a private embedded one."""

    connection_class: type[aio.AbstractConnection]
    arguments: dict[str, Any]
    described: str
    embedded_directory: str | None = None

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
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError(f"{_without_secrets(url)!r} is not a store URL; known forms: {URL_FORMS}")
    arguments: dict[str, Any] = dict(aio.parse_url(url))
    connection_class = arguments.pop("connection_class", aio.Connection)
    return Source(connection_class, _without_ours(arguments), _without_secrets(url))


def source_of_client(client: Any) -> Source:
    """Takes the settings of a redis-py client, sync or async, with or without `decode_responses`.

    Raises:
        TypeError: Not a client with a plain connection pool.
    """
    pool = getattr(client, "connection_pool", None)
    connection_class = getattr(pool, "connection_class", None)
    if pool is None or connection_class is None or "Sentinel" in type(pool).__name__:
        raise TypeError(
            f"a store needs a URL or a redis.Redis or redis.asyncio.Redis client, not {type(client).__name__}; "
            f"URL forms: {URL_FORMS}"
        )
    async_class = _async_counterpart(connection_class)
    arguments = _accepted(async_class, _without_ours(dict(pool.connection_kwargs)))
    return Source(async_class, arguments, f"a {type(client).__name__} client")


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
