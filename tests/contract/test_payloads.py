"""Any JSON-like payload comes back equal, whole and in stretches, from every store."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.conftest import make_store
from toolstash import BaseStore, WorkspaceMeta
from toolstash.store.payload import Payload

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
payloads = st.lists(values, max_size=40) | st.dictionaries(st.text(), values, max_size=20) | values
long_texts = st.builds(lambda unit, times: unit * times, st.text(min_size=1, max_size=9), st.integers(0, 2_000))


async def stored(store: BaseStore, payload: Any) -> WorkspaceMeta:
    return (await store.replace(WorkspaceMeta("w", "any", ttl=60.0), Payload(payload))).meta


async def check(store: BaseStore, payload: Any, start: int, size: int) -> None:
    meta = await stored(store, payload)
    assert await store.get_items("w") == payload
    if isinstance(payload, list):
        assert meta.item_count == len(payload)
        assert await store.get_page("w", start, size) == payload[start : start + size]
    elif isinstance(payload, str):
        assert meta.chars == len(payload)
        assert await store.get_page("w", start, size) == payload[start : start + size]
    elif isinstance(payload, dict):
        assert list(await store.get_items("w")) == list(payload)
        at = await store.locate("w")
        assert (await store.read_names(at, start, start + size)).data == list(payload)[start : start + size]
        assert (await store.read_fields(at, list(payload))).data == payload


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(payloads | long_texts, st.integers(0, 50), st.integers(0, 9_000))
async def test_in_memory(payload: Any, start: int, size: int) -> None:
    async with make_store("memory") as store:
        await check(store, payload, start, size)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(payloads | long_texts, st.integers(0, 50), st.integers(0, 9_000))
async def test_on_valkey(payload: Any, start: int, size: int) -> None:
    async with make_store("valkey") as store:
        await check(store, payload, start, size)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(payloads | long_texts, st.integers(0, 50), st.integers(0, 9_000))
async def test_on_redis_6_2(payload: Any, start: int, size: int) -> None:
    async with make_store("redis-6.2") as store:
        await check(store, payload, start, size)
