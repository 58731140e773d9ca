"""What bars the way to a server is named: for the model without places and arguments, for the log with them."""

from __future__ import annotations

import logging
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
import trustme
from redis.asyncio.sentinel import MasterNotFoundError

from tests.proxy import proxied
from tests.servers import shared_cluster, shared_server, start_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError, WorkspaceMeta
from toolstash.store.payload import Payload
from toolstash.wire import causes, faults, outage_log

LIMIT = 0.3
KINDS = {"redis": "", "redis+cluster": "", "redis+sentinel": "/papers"}


@dataclass
class Tls:
    """Ports over TLS, one with a certificate for another name, and files."""

    port: str
    misnamed_port: str
    authority: Path
    key: Path


@pytest.fixture
async def tls(tmp_path: Path) -> AsyncIterator[Tls]:
    authority = trustme.CA()
    right, wrong = authority.issue_cert("127.0.0.1"), authority.issue_cert("elsewhere.example")
    contexts: list[ssl.SSLContext] = []
    for certificate in (right, wrong):
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        certificate.configure_cert(contexts[-1])
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    right.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    url = shared_server("redis-8.2").url
    async with proxied(url, tls=contexts[0]) as first, proxied(url, tls=contexts[1]) as second:
        ports = [proxy.url.rpartition(":")[2] for proxy in (first, second)]
        yield Tls(*ports, tmp_path / "ca.pem", tmp_path / "key.pem")


async def refusal_of(url: str, seconds: float = LIMIT) -> tuple[StoreUnavailableError, float]:
    """What a call says of a server that cannot be used, and how long it took."""
    started = time.monotonic()
    async with RedisStore(url, prefix=f"t{secrets.token_hex(5)}", command_timeout_seconds=seconds) as store:
        with pytest.raises(StoreUnavailableError) as refusal:
            await store.list_workspaces()
        return refusal.value, time.monotonic() - started


@pytest.mark.parametrize("kind", KINDS)
async def test_what_no_waiting_mends_is_told_at_once(tls: Tls, kind: str) -> None:
    start, path = f"{kind.replace('redis', 'rediss')}://127.0.0.1:", KINDS[kind]
    told = {
        f"{start}{tls.port}{path}": "its certificate is not trusted",
        f"{start}{tls.misnamed_port}{path}?ssl_ca_certs={tls.authority}": "its certificate is for another host name",
        f"{start}{tls.port}{path}?ssl_ca_certs=/nowhere/ca.pem": "a certificate or key file that its URL names cannot",
        f"{start}{tls.port}{path}?ssl_ca_certs={tls.key}": "a certificate or key file that its URL names cannot",
        f"{start}{tls.port}{path}?ssl_certfile=/nowhere/c.pem": "a certificate or key file that its URL names cannot",
    }
    for url, words in told.items():
        refusal, seconds = await refusal_of(url, 5)
        assert refusal.message.startswith(f"The data store cannot be used: {words}")
        assert "TLS settings" in refusal.suggested_action
        assert seconds < 2
        assert not any(part in str(refusal.to_llm_dict()) for part in ("127.0.0.1", tls.port, "/nowhere", "papers"))


@pytest.mark.parametrize("kind", KINDS)
async def test_what_may_pass_is_waited_for_and_named(tls: Tls, kind: str) -> None:
    path, port = KINDS[kind], shared_server("redis-8.2").port
    told = {
        f"{kind}://no-such-host.invalid{path}": "its name does not resolve",
        f"{kind}://127.0.0.1:1{path}": "it refused the connection",
        f"{kind}://localhost:1{path}": "it refused the connection",
        f"{kind}://127.0.0.1:{tls.port}{path}": "it closed the connection",
    }
    for url, words in told.items():
        refusal, seconds = await refusal_of(url)
        assert refusal.message.startswith("The data store did not answer within ")
        assert refusal.message.endswith(f"{words}).")
        assert seconds >= LIMIT
        assert "invalid" not in refusal.message
        assert "127.0.0.1" not in refusal.message
    if kind != "redis+sentinel":
        refusal, _ = await refusal_of(f"{kind.replace('redis', 'rediss')}://127.0.0.1:{port}{path}")
        assert "it did not take up TLS" in refusal.message


async def test_a_socket_that_is_not_there_may_come() -> None:
    refusal, _ = await refusal_of("unix:///nowhere/redis.sock")
    assert refusal.message.endswith(" s (its socket does not exist).")


async def test_a_server_with_too_many_clients_says_so() -> None:
    server = start_server("valkey", "--maxclients", "1")
    with redis.Redis(port=server.port) as only:
        await until(only.ping, what="the only client is in")
        refusal, _ = await refusal_of(server.url)
        assert refusal.message.endswith("(it has too many clients).")
    server.stop()


async def test_urls_of_another_kind_of_server_get_a_hint() -> None:
    plain = shared_server("redis-8.2").url.removeprefix("redis://")
    told = {
        f"redis+cluster://{plain}": "is not a Redis Cluster; its URL has to begin with redis://",
        f"redis+sentinel://{plain}/papers": "is not a sentinel; its URL has to begin with redis://",
        f"redis+sentinel://127.0.0.1:{shared_cluster().nodes[0].port}/papers": "is not a sentinel",
    }
    for url, words in told.items():
        refusal, _ = await refusal_of(url)
        assert words in refusal.message
        assert "URL needs attention" in refusal.suggested_action
        assert "papers" not in refusal.message


async def test_a_replica_reads_and_says_that_it_may_be_one() -> None:
    primary = start_server("valkey")
    replica = start_server("valkey", "--replicaof", "127.0.0.1", str(primary.port))
    async with RedisStore(replica.url, command_timeout_seconds=LIMIT) as store:
        with redis.Redis(port=replica.port) as client:
            await until(lambda: client.info("replication")["master_link_status"] == "up", what="it follows")
        assert await store.list_workspaces() == []
        with pytest.raises(StoreUnavailableError, match="it takes no writes at the moment") as refusal:
            await store.replace(WorkspaceMeta("w", "papers"), Payload([1]))
    assert "may be that of a replica" in refusal.value.suggested_action
    primary.stop()
    replica.stop()


@pytest.mark.parametrize(("quiet", "warnings"), [(60.0, 1), (0.0, 3)])
def test_the_log_is_quiet_for_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, quiet: float, warnings: int
) -> None:
    monkeypatch.setattr(outage_log, "QUIET_SECONDS", quiet)
    log = outage_log.OutageLog("redis://h")
    for _ in range(3):
        log.note(StoreUnavailableError("It is away."), OSError("gone"))
    assert len(caplog.records) == warnings
    assert "OSError: gone" in caplog.text


async def test_the_log_says_once_a_minute_what_happened(caplog: pytest.LogCaptureFixture) -> None:
    async with Ctx(RedisStore("redis://u:hunter2@127.0.0.1:1/0", command_timeout_seconds=0.1)) as ctx:
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await ctx.list_workspaces()
        (record,) = [one for one in caplog.records if one.name == "toolstash"]
        assert record.levelno == logging.WARNING
        assert "127.0.0.1:1" in record.getMessage()
        assert "ConnectionRefusedError" in record.getMessage()
        assert "hunter2" not in record.getMessage()
        await ctx.store.aclose()


async def test_the_log_names_the_file_that_cannot_be_read(tls: Tls, caplog: pytest.LogCaptureFixture) -> None:
    await refusal_of(f"rediss://127.0.0.1:{tls.port}?ssl_ca_certs=/nowhere/ca.pem")
    assert "/nowhere/ca.pem" in caplog.text
    assert "FileNotFoundError" in caplog.text


async def test_a_user_without_rights_for_the_prefix_does_not_look_healthy() -> None:
    server, name = shared_server("valkey"), f"t{secrets.token_hex(5)}"
    with redis.Redis(port=server.port) as client:
        client.execute_command("ACL", "SETUSER", name, "reset", "on", ">pw", f"~{name}:*", "+@all")
        url = f"redis://{name}:pw@127.0.0.1:{server.port}"
        async with RedisStore(url, prefix=name) as store, RedisStore(url, prefix=f"{name}x") as other:
            assert await store.ping() > 0
            with pytest.raises(StoreUnavailableError, match="refused access"):
                await other.ping()
        client.execute_command("ACL", "DELUSER", name)


UNFIT = "The data store could not run the command"
TOLD = [
    (redis.exceptions.AskError("4478 127.0.0.1:24865"), "The data store is a node of a Redis Cluster; "),
    (redis.exceptions.MovedError("4478 127.0.0.1:24865"), "The data store is a node of a Redis Cluster; "),
    (
        redis.ResponseError("unknown command 'EVALSHA', with args beginning with: '4cb8be' '1' 'secret' "),
        f"{UNFIT} (it does not know the command EVALSHA).",
    ),
    (
        redis.ResponseError("unknown command `FT.SEARCH`, with args beginning with: `secret`, "),
        f"{UNFIT} (it does not know the command FT.SEARCH).",
    ),
    (
        redis.ResponseError(f"Unknown command called from script script: {'4cb8be1f' * 5}, on @user_script:12."),
        f"{UNFIT} (Unknown command called from script).",
    ),
    (redis.ResponseError(f"something script: {'4cb8be1f' * 5}, on @user_script:12."), f"{UNFIT} (something)."),
    (redis.ResponseError("cannot reach 10.0.0.1:6379 nor h-1.example:6380"), f"{UNFIT} (cannot reach … nor …)."),
    (TypeError("secret"), f"{UNFIT} (TypeError)."),
    (redis.ResponseError(f"You can't. script: f_{'4cb8be1f' * 5}, on @user_script:12."), f"{UNFIT} (You can't.)."),
    (redis.ResponseError("DB index is out of range"), f"{UNFIT} (DB index is out of range)."),
    (redis.exceptions.InvalidResponse("\x15secret"), "The data store cannot be used: it does not speak the protocol"),
]


@pytest.mark.parametrize(("error", "told"), TOLD)
def test_no_place_digest_or_argument_is_told(error: Exception, told: str) -> None:
    message = faults.translate(error, tried_seconds=1).message
    assert message.startswith(told)
    assert not any(words in message for words in ("secret", "4cb8be", "127.0.0.1", "10.0.0.1", "example"))


def test_a_fault_that_somebody_else_handles_is_not_the_cause() -> None:
    fault = redis.ConnectionError("Connection closed by server.")
    fault.__context__ = ssl.SSLCertVerificationError("of another connection")
    assert faults.is_passing(fault)
    assert causes.origin(fault) is fault


def test_sentinels_that_are_missed_for_several_reasons_may_come_back() -> None:
    fault = MasterNotFoundError("no sentinel answered")
    assert faults.is_passing(fault)
    assert faults.translate(fault, tried_seconds=1).message.endswith("(no sentinel answered).")
    fault.__cause__ = ConnectionRefusedError(111, "127.0.0.1")
    told = faults.translate(fault, tried_seconds=1).message
    assert told.endswith("(no sentinel answered: it refused the connection).")


def test_a_refusal_among_the_replies_holds_no_argument_either() -> None:
    refused = faults.as_value(redis.ResponseError("unknown command 'FT.INFO', with args beginning with: 'secret'"))
    assert refused == faults.CommandRefused("unknown command 'FT.INFO'")
