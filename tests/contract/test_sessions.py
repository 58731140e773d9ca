"""Sessions on every store: what is foreign looks missing, through every door (F5, F22, F39)."""

from __future__ import annotations

import pytest

from toolstash import (
    BaseStore,
    InvalidArgumentError,
    SessionRequiredError,
    WorkspaceMeta,
    WorkspaceNotFoundError,
    session_scope,
)
from toolstash.store.payload import Payload
from toolstash.store.session import current_session

HOSTILE = ["a|b", "x} @session:{y", "*", "u1", "u1:x", "u10", "?", "[a-z]", "{shared}", "shared", " ", "é", "s" * 1_500]


async def put(store: BaseStore, payload: object, name: str | None = "notes") -> str:
    session = current_session()
    at = store.place(name, "notes", session)
    await store.replace(WorkspaceMeta(at.workspace_id, "notes", session_id=session), Payload(payload))
    return at.workspace_id


@pytest.mark.parametrize("first", HOSTILE)
async def test_no_session_reaches_another(store: BaseStore, first: str) -> None:
    ids: dict[str, str] = {}
    for session in HOSTILE:
        with session_scope(session):
            ids[session] = await put(store, [session])
    shared = await put(store, ["everybody"])

    with session_scope(first):
        assert await store.get_items(ids[first]) == [first]
        assert await store.list_workspaces() == [ids[first], shared]
        for other in HOSTILE:
            if other != first:
                assert await store.get_meta(ids[other]) is None
                assert await store.drop_workspace(ids[other]) is False
                with pytest.raises(WorkspaceNotFoundError):
                    await store.get_items(ids[other])
                with pytest.raises(WorkspaceNotFoundError):
                    await store.append_items(ids[other], [1])
                with pytest.raises(InvalidArgumentError):
                    store.place(ids[other], "notes", first)
        await store.clear()
        assert await store.list_workspaces() == [shared]
    assert len(set(ids.values())) == len(HOSTILE)
    assert len(await store.list_workspaces()) == len(HOSTILE)


async def test_outside_any_session_everything_is_visible(store: BaseStore) -> None:
    with session_scope("alice"):
        mine = await put(store, [1])

    assert await store.get_items(mine) == [1]
    assert await store.append_items(mine, [2]) == 2
    assert await store.drop_workspace(mine) is True
    with pytest.raises(InvalidArgumentError):
        store.place(mine, "notes", None)


async def test_random_ids_carry_the_session_label(store: BaseStore) -> None:
    with session_scope("alice"):
        first, second = await put(store, [1], None), await put(store, [1], None)
        label = (await put(store, [1], "x")).removeprefix("x")

    assert first.endswith(label)
    assert first != second
    assert len(label) == 13


@pytest.mark.parametrize(
    "name",
    ["plain", "k_A b/ü:*{}[]%", "a:b", "\ud834", "n" * 1_500, "n" * 1_499 + "m", "x\0y", "..", "@", "a@b"],
)
async def test_any_id_names_one_workspace(store: BaseStore, name: str) -> None:
    await put(store, ["other"], "n" * 1_498)
    full = await put(store, [1], name)

    assert await store.get_items(name) == [1]
    assert await store.get_items(full) == [1]
    assert len(full) <= 113
    assert full in await store.list_workspaces()


@pytest.mark.parametrize("name", ["", 5, None, ["x"]])
async def test_an_id_is_a_non_empty_string(store: BaseStore, name: object) -> None:
    with pytest.raises(InvalidArgumentError):
        await store.get_items(name)  # type: ignore[arg-type]


def test_an_empty_session_id_is_refused() -> None:
    with pytest.raises(SessionRequiredError), session_scope(""):
        raise AssertionError("the block must not run")
