"""The options that a store's URL may have. What would be ignored, or fail at the first call, is refused at once."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

from redis.asyncio.connection import URL_QUERY_ARGUMENT_PARSERS

_PLAIN: Final = frozenset(["db", "username", "password", "client_name", "socket_read_size"])
_OVER_TCP: Final = frozenset(["socket_keepalive"])
_TLS: Final = frozenset(
    [
        "ssl_ca_certs",
        "ssl_ca_data",
        "ssl_ca_path",
        "ssl_cert_reqs",
        "ssl_certfile",
        "ssl_check_hostname",
        "ssl_ciphers",
        "ssl_exclude_verify_flags",
        "ssl_include_verify_flags",
        "ssl_keyfile",
        "ssl_min_version",
        "ssl_password",
    ]
)
_SENTINEL: Final = frozenset(["sentinel_username", "sentinel_password"])
_IGNORED: Final = frozenset(
    [
        "decode_responses",
        "encoding",
        "encoding_errors",
        "health_check_interval",
        "legacy_responses",
        "lib_name",
        "lib_version",
        "max_connections",
        "protocol",
        "retry_on_error",
        "retry_on_timeout",
        "socket_connect_timeout",
        "socket_timeout",
        "timeout",
    ]
)
"""Options of redis-py that toolstash sets itself: URLs that other programs use too may have them."""

_BOOLEANS: Final = frozenset(["1", "0", "true", "false", "t", "f", "yes", "no", "y", "n"])


def _boolean(value: str) -> None:
    if value.lower() not in _BOOLEANS:
        raise ValueError


def _number(value: str) -> None:
    if not re.fullmatch("[0-9]{1,9}", value):
        raise ValueError


def _requirement(value: str) -> None:
    if value not in ("none", "optional", "required"):
        raise ValueError


_FORMS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "db": (_number, "a number from 0"),
    "socket_read_size": (_number, "a number of bytes"),
    "socket_keepalive": (_boolean, "true or false"),
    "ssl_check_hostname": (_boolean, "true or false"),
    "ssl_cert_reqs": (_requirement, "none, optional or required"),
    "ssl_min_version": (lambda value: ssl.TLSVersion(int(value)), "the number of a version of TLS, such as 771"),
}


def fault_of_options(scheme: str, query: str) -> str | None:
    """What is wrong with the options of a URL, in words that hold no value of theirs; None if nothing is.

    Args:
        scheme: What stands before `://`.
        query: What stands behind the question mark.
    """
    allowed = _allowed(scheme)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            return _unknown(scheme, name, query)
        check, form = _FORMS.get(name, (URL_QUERY_ARGUMENT_PARSERS.get(name, str), "of the right form"))
        try:
            check(value)
        except (ValueError, TypeError, KeyError):
            return f"has an option {name!r} that is not {form}"
        if not value:
            return f"has an option {name!r} without a value"
    return None


def _allowed(scheme: str) -> frozenset[str]:
    over_tcp = frozenset[str]() if scheme == "unix" else _OVER_TCP
    tls = _TLS if scheme.startswith("rediss") else frozenset[str]()
    sentinel = _SENTINEL if scheme.endswith("+sentinel") else frozenset[str]()
    return _PLAIN | _IGNORED | over_tcp | tls | sentinel


def _unknown(scheme: str, name: str, query: str) -> str:
    if name in _TLS or name == "ssl":
        return f"has an option {name!r}, but TLS is asked for by a scheme that begins with rediss (and only by it)"
    if "@" in query or not re.fullmatch("[a-z_]{1,40}", name) or f"{name}=" not in query:
        return "has an option of an unknown name, or a password that is not percent-encoded"
    options = ", ".join(sorted(_allowed(scheme) - _IGNORED))
    return f"has an unknown option {name!r} (options: {options})"
