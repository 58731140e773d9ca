"""Why a server cannot be reached or used, in a few words: for the model without hosts, for the log with them."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Callable
from typing import Any

from redis import exceptions as redis_errors

_WRAPPERS = (redis_errors.ConnectionError, redis_errors.TimeoutError, redis_errors.RedisClusterException)
_BY_A_SCRIPT = re.compile(r"\A(?:ERR )?Error running script .*?: -(?=[A-Z]+ )")  # what Redis 6 puts before the words
_ARGUMENTS = re.compile(r",? with args beginning with.*|,? ?\(?(?:call to f_|\bscript:).*|,? on @user_script.*")
_PLACE = re.compile(
    r"\S*\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\S*|\[[0-9a-fA-F:]+\](?::\d+)?|\b[\w.-]+:\d{2,5}\b|\b[0-9a-f]{40}\b"
)
_UNKNOWN_COMMAND = re.compile(
    r"unknown command (?:[`'\"](?P<quoted>[\w.|-]{1,40})|(?P<bare>[\w.|-]{1,40}), with)", re.I
)
_FILES = ("ca_certs", "ca_path", "certfile", "keyfile")
_EXPIRED = 10
_OTHER_NAME = (62, 64)  # a host name, an address
_REFUSED = re.compile(rf"\[Errno {errno.ECONNREFUSED}\]|Error {errno.ECONNREFUSED}\b")


class UnreadableFilesError(Exception):
    """A certificate or a key of our own could not be read, so no server was asked."""


class NoTlsError(TimeoutError):
    """The time was over before a server took up TLS."""


def check_own_files(make: Callable[[], Any]) -> None:
    """Looks whether certificates and keys of our own are why no TLS connection came about.

    Args:
        make: Makes a connection of redis-py, which is not opened.

    Raises:
        UnreadableFilesError: They are.
    """
    context = getattr(make(), "ssl_context", None)
    try:
        if context is not None:
            context.get()
    except (OSError, ValueError, TypeError) as error:
        named = {name: getattr(context, name) for name in _FILES if getattr(context, name)}
        raise UnreadableFilesError(f"{type(error).__name__}: {error}; they are {named}") from error


def origin(error: Exception) -> Exception:
    """What redis-py made an error of, as far as that says more."""
    while isinstance(error, _WRAPPERS):
        cause = error.__cause__ or (error.__context__ if _tells_of_another(error) else None)
        if not isinstance(cause, (OSError, redis_errors.RedisError, UnreadableFilesError)):
            break
        error = cause
    return error


def is_set_up_wrong(error: Exception) -> bool:
    """Whether certificates or files are the cause (of an `origin`), which no waiting mends."""
    return isinstance(error, (ssl.SSLCertVerificationError, UnreadableFilesError))


def reason(error: Exception) -> str | None:
    """Why the way to the server is barred (of an `origin`), in words for a model; None if something else happened."""
    if isinstance(error, OSError):
        return _of_the_way(error)
    if isinstance(error, UnreadableFilesError):
        return "a certificate or key file that its URL names cannot be read"
    if isinstance(error, redis_errors.InvalidResponse):
        return "it does not speak the protocol of Redis, or only over TLS"
    words = str(error)
    if "max number of clients" in words:
        return "it has too many clients"
    if isinstance(error, redis_errors.ConnectionError) and "closed by server" in words:
        return "it closed the connection"
    return None


def first_words(error: Exception) -> str:
    """What a server answered, shortened, without arguments, places and digests; of other errors their type."""
    unknown = _UNKNOWN_COMMAND.search(str(error))
    if unknown:
        return f"it does not know the command {(unknown['quoted'] or unknown['bare']).upper()}"
    if not isinstance(error, redis_errors.RedisError):
        return type(error).__name__
    return " ".join(cleaned(error).split("\n", 1)[0].split()[:12])[:120] or type(error).__name__


def cleaned(error: Exception) -> str:
    """What a server answered, without arguments, places and digests."""
    return _PLACE.sub("…", _ARGUMENTS.sub("", words_of(error)))


def words_of(error: Exception) -> str:
    """What a server answered, without what Redis 6 puts before it."""
    return _BY_A_SCRIPT.sub("", str(error))


def for_the_log(error: Exception) -> str:
    """The cause for whoever runs the program: with host and port, still without arguments."""
    root = origin(error)
    if isinstance(root, (OSError, UnreadableFilesError)):
        told = error if isinstance(error, _WRAPPERS) and _tells_of_another(error) else root
        words = str(told)[:300].rstrip(".")
        return f"{type(root).__name__}: {words}" if words else type(root).__name__
    return f"{type(root).__name__}: {first_words(root).rstrip('.')}"


def _tells_of_another(error: Exception) -> bool:
    """An error that was raised in an `except` of somebody else's has a context that is not its cause."""
    return isinstance(error, redis_errors.RedisClusterException) or str(error).startswith("Error ")


def _of_the_way(error: OSError) -> str | None:
    if isinstance(error, ssl.SSLError):
        return _of_tls(error)
    if isinstance(error, NoTlsError):
        return "it did not take up TLS; it may not speak it"
    if isinstance(error, socket.gaierror):
        return "its name does not resolve"
    if isinstance(error, ConnectionRefusedError) or _REFUSED.search(str(error)):
        return "it refused the connection"
    if isinstance(error, ConnectionError):
        return "it closed the connection"
    if isinstance(error, FileNotFoundError):
        return "its socket does not exist"
    return "its socket may not be opened" if isinstance(error, PermissionError) else None


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAME:
            return "its certificate is for another host name"
        return "its certificate has expired" if error.verify_code == _EXPIRED else "its certificate is not trusted"
    kind = (error.reason or "").upper()
    if "CERTIFICATE" in kind or "UNKNOWN_CA" in kind:
        return "it does not accept the client's certificate"
    return "it does not speak TLS" if "WRONG_VERSION" in kind else "no TLS connection came about"
