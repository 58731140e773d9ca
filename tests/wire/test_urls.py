"""URLs and settings that cannot be meant are refused when the store is made, in words that hold no secret."""

from __future__ import annotations

from typing import Any

import pytest

from toolstash import Ctx, RedisStore
from toolstash.settings import Settings
from toolstash.wire.source import source_of_url

BAD = {
    "redis://h/abc": "a database that is not a number from 0",
    "redis://h/-1": "a database that is not a number from 0",
    "redis://h/0/1": "a database that is not a number from 0",
    "redis://h?db=abc": "an option 'db' that is not a number from 0",
    "redis://h:abc": "a port that is not a number from 1 to 65535",
    "redis://h:0": "a port that is not a number from 1 to 65535",
    "redis://h:99999": "a port that is not a number from 1 to 65535",
    "redis+cluster://h:1;h:2": "a port that is not a number from 1 to 65535",
    "redis://[::1": "a host of the wrong form",
    "redis+cluster://h:1, h:2": "a host with a space",
    "redis://h/0#1": "a '#'",
    "redis+sentinel://h/papers#1": "a '#'",
    "redis://h?foo=bar": "an unknown option 'foo'",
    "redis://h?connection_class=x": "an unknown option 'connection_class'",
    "redis://h?host=other": "an unknown option 'host'",
    "redis://h?ssl=true": "an option 'ssl', but TLS is asked for by a scheme",
    "rediss://h?ssl=true": "an option 'ssl', but TLS is asked for by a scheme",
    "redis://h?ssl_ca_certs=/x": "an option 'ssl_ca_certs', but TLS",
    "unix:///x?ssl_ca_certs=/x": "an option 'ssl_ca_certs', but TLS",
    "redis+cluster://h?ssl_ca_certs=/x": "an option 'ssl_ca_certs', but TLS",
    "rediss://h?ssl_ca_certs=": "an option 'ssl_ca_certs' without a value",
    "rediss://h?ssl_cert_reqs=maybe": "an option 'ssl_cert_reqs' that is not none, optional or required",
    "rediss://h?ssl_check_hostname=off": "an option 'ssl_check_hostname' that is not true or false",
    "rediss://h?ssl_min_version=12": "an option 'ssl_min_version' that is not the number of a version of TLS",
    "redis://h?socket_keepalive=maybe": "an option 'socket_keepalive' that is not true or false",
    "redis://h?socket_timeout=soon": "an option 'socket_timeout' that is not of the right form",
    "unix:///x?socket_keepalive=1": "an unknown option 'socket_keepalive'",
    "redis://h?sentinel_password=x": "an unknown option 'sentinel_password'",
    "redis+sentinel://h/papers?sentinel_ssl=1": "an unknown option 'sentinel_ssl'",
    "redis+sentinel://h/papers?service_name=x": "an unknown option 'service_name'",
    "redis+sentinel://h/papers?is_master=False": "an unknown option 'is_master'",
    "unix://": "name the path of a socket",
    "unix://tmp/x.sock": "name the path of a socket",
}


@pytest.mark.parametrize("url", BAD)
def test_what_is_wrong_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="known forms") as refusal:
        RedisStore(url)
    assert BAD[url] in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:hunter2",
        "redis://u:hun?hunter2@h:1/0",
        "redis://u:hun?hunter2=x@h:1/0",
        "redis://h/hunter2",
        "redis://h?hunter2",
        "redis://u@h?Hunter2=1",
        "redis://h?db=hunter2",
        "redis+sentinel://u:hun/hunter2@h:1/s",
        "rediss://h?ssl_password=hunter2&ssl_cert_reqs=hunter2",
    ],
)
def test_what_could_be_a_secret_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="known forms") as refusal:
        RedisStore(url)
    assert "hunter2" not in str(refusal.value).lower()


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("redis://", {}),
        ("redis://h", {"host": "h"}),
        ("redis://h/", {"host": "h"}),
        ("redis://h:7/3", {"host": "h", "port": 7, "db": 3}),
        ("redis://[::1]:7?db=3", {"host": "::1", "port": 7, "db": 3}),
        ("redis://me:p%40%23%3Fss@h", {"host": "h", "username": "me", "password": "p@#?ss"}),
        ("redis://h?username=me&password=x", {"host": "h", "username": "me", "password": "x"}),
        ("redis://h?socket_keepalive=yes&client_name=me", {"host": "h", "socket_keepalive": True, "client_name": "me"}),
        ("redis://h?socket_timeout=1&max_connections=3&protocol=3&health_check_interval=5", {"host": "h"}),
        ("unix://:pw@/run/x%20y.sock?db=2", {"path": "/run/x y.sock", "password": "pw", "db": 2}),
        (
            "rediss://h?ssl_ca_certs=/x&ssl_cert_reqs=required&ssl_check_hostname=no&ssl_min_version=772",
            {"host": "h", "ssl_ca_certs": "/x", "ssl_cert_reqs": "required"}
            | {"ssl_check_hostname": False, "ssl_min_version": 772},
        ),
    ],
)
def test_what_is_right_is_taken(url: str, arguments: dict[str, Any]) -> None:
    assert source_of_url(url).arguments == arguments


@pytest.mark.parametrize("value", [2.5, "5", True, None])
def test_a_number_of_connections_is_whole(value: Any) -> None:
    with pytest.raises(TypeError, match="max_connections must be a whole number"):
        RedisStore("redis://h", max_connections=value)


@pytest.mark.parametrize("name", ["wait_seconds", "command_timeout_seconds"])
def test_a_time_limit_is_a_number(name: str) -> None:
    limits: dict[str, Any] = {name: "5"}
    with pytest.raises(TypeError, match=f"{name} must be a number of seconds"):
        RedisStore("redis://h", **limits)


def test_nothing_is_not_replaced_by_a_default() -> None:
    with pytest.raises(ValueError, match="prefix must not be empty"):
        RedisStore("redis://h", prefix="")
    with pytest.raises(ValueError, match="prefix must not be empty"):
        Ctx("memory:", prefix="")
    with pytest.raises(ValueError, match="known forms"):
        RedisStore("")


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    settings = Settings.from_environment(environment={"TOOLSTASH_URL": "", "TOOLSTASH_PREFIX": ""})
    assert (settings.url, settings.prefix) == ("embedded:", "toolstash")
    settings = Settings.from_environment(environment={"TOOLSTASH_URL": "memory:", "TOOLSTASH_PREFIX": "mine"})
    assert (settings.url, settings.prefix) == ("memory:", "mine")
