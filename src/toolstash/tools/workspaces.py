"""What a Ctx does with workspaces apart from storing them: look, drop, watch, wait."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Any
from weakref import WeakSet

from toolstash.blocking import Blocking
from toolstash.contracts import EVENT_KINDS, Event, EventKind, Stats, WorkspaceMeta
from toolstash.contracts import SHARED_SPACE as SHARED
from toolstash.errors import SessionRequiredError
from toolstash.store import watching
from toolstash.store.arguments import checked_id
from toolstash.store.base import BaseStore
from toolstash.store.session import current_session
from toolstash.store.signal import Signal
from toolstash.tools.lifetime import Lifetime, RunningCall
from toolstash.wire.keys import label_of, space_of_session, split_label

CLOSED = "this Ctx was closed while it was watched"


class Workspaces:
    """The workspaces that the caller sees: those of the current session and the shared ones; all, outside any."""

    def __init__(self, store: BaseStore, *, require_session: bool) -> None:
        self.store = store
        self.require_session = require_session
        self._lifetime = Lifetime()
        self._watching: WeakSet[Signal] = WeakSet()
        self._has_ended_watching = False

    async def list_workspaces(self, workspace_type: str | None = None) -> list[str]:
        """Ids of the live workspaces that the caller sees, oldest first."""
        with self.running():
            return await self.store.list_workspaces(workspace_type)

    async def workspace_meta(self, workspace_id: str) -> WorkspaceMeta | None:
        """What is known of a workspace; None if the caller sees none of that id."""
        with self.running():
            return await self.store.get_meta(workspace_id)

    async def drop_workspace(self, workspace_id: str) -> bool:
        """Removes a workspace; False if the caller sees none of that id."""
        with self.running():
            return await self.store.drop_workspace(workspace_id)

    async def sweep_expired(self) -> list[str]:
        """Ids that expired since the last sweep. The data itself goes without it."""
        with self.running():
            return await self.store.sweep_expired()

    async def clear(self) -> None:
        """Removes the current session's workspaces; outside any session, all of them."""
        with self.running():
            await self.store.clear()

    async def ping(self) -> float:
        """How long the store takes to answer, in seconds."""
        with self.running():
            return await self.store.ping()

    async def stats(self) -> Stats:
        """What the store holds of what the caller sees, counted now."""
        with self.running():
            return await self.store.stats()

    def watch(
        self,
        *,
        kinds: Collection[EventKind] | None = None,
        workspace_type: str | None = None,
        after: str | None = None,
    ) -> AsyncGenerator[Event]:
        """What happens in the current session and outside any: to workspaces, and to calls that take a while.

        Outside any session, only what belongs to none.

        Endless: leave the loop when you have seen enough. Outages of the store are waited out, with nothing missed
        that is still kept (the last 5,000 events of a session).

        Args:
            kinds: Only these; None for all: "created", "replaced", "changed", "dropped" of workspaces, "suspended",
                "answered", "progress", "cancel", "ended" of calls.
            workspace_type: Only events of workspaces of this type.
            after: The `id` of an event, to go on after it; "0": from the oldest that is kept; None: from the moment
                that the loop begins.

        Raises:
            ValueError: A kind that there is not.
            InvalidArgumentError: `after` is not the id of an event of this session.
            StoreUnavailableError: The store does not answer, for half a minute once watching has begun.
            RuntimeError: The Ctx or the store was closed meanwhile.
        """
        chosen = frozenset(EVENT_KINDS if kinds is None else [kinds] if isinstance(kinds, str) else kinds)
        if not chosen <= set(EVENT_KINDS):
            raise ValueError(f"kinds are some of {', '.join(EVENT_KINDS)}, not {sorted(chosen - set(EVENT_KINDS))}")
        self._check_open()

        session = current_session()
        ending = label_of(space_of_session(session))

        def wanted(event: Event) -> bool:
            is_foreign = event.call_id != "" and not event.call_id.endswith(ending)
            return event.kind in chosen and workspace_type in (None, event.workspace_type) and not is_foreign

        return watching.events(
            self.store,
            self._watched_spaces(),
            after,
            wanted=wanted,
            check=self._check_watching,
            signals=self._watching,
        )

    async def wait_for_workspace(
        self,
        workspace_id: str | None = None,
        *,
        workspace_type: str | None = None,
        version: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a caller's limit, in the words of asyncio.wait_for
    ) -> WorkspaceMeta:
        """Waits until a workspace is there; returns at once if it is.

        Args:
            workspace_id: Which; None: the newest one of the type. In a session, the name without the session's ending
                will do: the session's own workspace comes before a shared one of that name.
            workspace_type: Of which type it has to be; None: any.
            version: A version that the caller has seen: waits for another one. Needs `workspace_id`.
            timeout: Seconds to wait at most; None: for ever.

        Raises:
            TimeoutError: There was none in time.
            ValueError: Neither an id nor a type, or a version without an id.
            InvalidArgumentError: The id is not a non-empty text.
            StoreUnavailableError: The store does not answer.
            RuntimeError: The Ctx or the store was closed meanwhile.
        """
        if workspace_id is not None:
            checked_id(workspace_id)
        if (workspace_id is None and not workspace_type) or (version is not None and workspace_id is None):
            raise ValueError("name a workspace_id or a workspace_type; version goes with workspace_id")

        self._check_open()
        names = [None] if workspace_id is None else self._meant(workspace_id)

        async def look() -> WorkspaceMeta | None:
            for name in names:
                named = name or next(reversed(await self.store.list_workspaces(workspace_type)), None)
                meta = None if named is None else await self.store.get_meta(named)
                if meta is not None and workspace_type in (None, meta.workspace_type) and meta.version != version:
                    return meta
            return None

        try:
            return await watching.until(
                self.store,
                self._watched_spaces(),
                look,
                concerns=lambda event: event.workspace_id in names or workspace_type == event.workspace_type,
                timeout_seconds=timeout,
                ticks=current_session() is None,
                check=self._check_watching,
                signals=self._watching,
            )
        except TimeoutError as error:
            what = f"'{workspace_id}'" if workspace_id else f"of type '{workspace_type}'"
            newer = " with another version" if version else ""
            raise TimeoutError(f"no workspace {what}{newer} within {timeout} s") from error

    def _meant(self, workspace_id: str) -> list[str | None]:
        """The ids that a name may stand for: in a session, first that of a workspace which the session has made."""
        session = current_session()
        if session is None or split_label(workspace_id)[1]:
            return [workspace_id]
        return [self.store.place(workspace_id, "", session).workspace_id, workspace_id]

    def _check_open(self) -> None:
        """What watches or waits is not counted as a running call: closing ends it and does not wait for it."""
        self.check_session()
        self._lifetime.check()

    def end_watching(self) -> None:
        """Lets everything that watches or waits end with a RuntimeError, also what is just about to begin."""
        self._has_ended_watching = True
        for signal in list(self._watching):
            signal.fail(RuntimeError(CLOSED))

    def _check_watching(self) -> None:
        if self._has_ended_watching:
            raise RuntimeError(CLOSED)
        self._lifetime.check()

    def _watched_spaces(self) -> Sequence[str]:
        return self.store.visible_spaces() or [SHARED]

    # Life

    @property
    def blocking(self) -> Any:
        """The async methods for sync code: `ctx.blocking.list_workspaces()`."""
        return Blocking(self)

    def running(self) -> RunningCall:
        """Counts a call, so that closing waits for it.

        Raises:
            RuntimeError: The Ctx is closed, or the running event loop is not asyncio's.
        """
        return self._lifetime.call()

    def check_session(self) -> None:
        """Raises SessionRequiredError where this Ctx wants a session and none is active."""
        if self.require_session and current_session() is None:
            raise SessionRequiredError("This Ctx requires a session for every call.")
