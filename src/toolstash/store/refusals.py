"""The errors that every store words the same way."""

from __future__ import annotations

from collections.abc import Sequence

from toolstash.contracts import Address, Limits, WorkspaceMeta
from toolstash.errors import (
    InvalidArgumentError,
    PayloadTooLargeError,
    QuotaExceededError,
    StoreUnavailableError,
    ToolstashError,
    VersionConflictError,
    WorkspaceConflictError,
    WorkspaceExpiredError,
    WorkspaceShapeMismatchError,
)
from toolstash.store.codec import unpack
from toolstash.store.flights import OvertakenError


def conflict(meta: WorkspaceMeta, held_type: str, producer: str) -> WorkspaceConflictError:
    """The id is held by another producer or type."""
    maker = f"made by '{producer:.60}'" if producer else "that was stored directly"
    return WorkspaceConflictError(
        f"The id '{meta.workspace_id:.150}' is held by a '{held_type:.60}' workspace {maker}; it was left as it is.",
        workspace_id=meta.workspace_id[:150],
        suggested_action="Use another key or name for this result.",
    )


def expired(at: Address, producer: str) -> WorkspaceExpiredError:
    """The workspace was there and is gone."""
    again = f"Call {producer}() to create a fresh workspace." if producer else "Create the data again."
    return WorkspaceExpiredError(
        f"Workspace '{at.workspace_id:.150}' has expired.",
        workspace_id=at.workspace_id[:150],
        suggested_action=again,
    )


def over_quota(max_bytes: int | None) -> QuotaExceededError:
    """One workspace alone is above what its session may hold."""
    return QuotaExceededError(
        f"The workspace alone is above what one session may hold ({max_bytes:,} bytes); nothing was stored.",
        max_bytes=max_bytes,
    )


def overtaken(meta: WorkspaceMeta) -> OvertakenError:
    """Another worker has taken over what this one was making."""
    return OvertakenError(
        f"Workspace '{meta.workspace_id:.150}' took so long without a sign of life that another worker makes it now."
    )


def check_limits(limits: Limits, items: int, size: int) -> None:
    """Raises PayloadTooLargeError when a workspace would have more rows, or bytes, than it may."""
    if limits.max_items is not None and items > limits.max_items:
        raise PayloadTooLargeError(
            f"The result has {items:,} or more items; at most {limits.max_items:,} can be stored.",
            item_count=items,
            max_items=limits.max_items,
        )
    if limits.max_bytes is not None and size > limits.max_bytes:
        raise PayloadTooLargeError(
            f"The result has {size:,} or more bytes; at most {limits.max_bytes:,} can be stored.",
            bytes=size,
            max_bytes=limits.max_bytes,
        )


def wrong_version(at: Address, version: str) -> VersionConflictError:
    """The workspace is not at the version that the caller expected."""
    return VersionConflictError(
        f"Workspace '{at.workspace_id:.150}' is at another version now; nothing was written.",
        workspace_id=at.workspace_id[:150],
        version=version,
    )


def no_such_index(index: int, count: int) -> InvalidArgumentError:
    """The row is not there."""
    return InvalidArgumentError(
        f"Index {index} is out of range.",
        argument="index",
        valid_range=f"0–{count - 1}" if count else "none: the workspace has no rows",
        total_items=count,
        suggested_action="Use an index within valid_range." if count else "There is no row to name.",
    )


def not_an_object(index: int) -> InvalidArgumentError:
    """A row without fields cannot be patched."""
    return InvalidArgumentError(
        f"Row {index} is not an object, so it has no fields to set.",
        argument="index",
        suggested_action="Replace the whole row instead.",
    )


def require_list(meta: WorkspaceMeta) -> None:
    """Raises WorkspaceShapeMismatchError unless the workspace is a list."""
    if meta.data_shape != "list":
        raise WorkspaceShapeMismatchError(
            f"Workspace '{meta.workspace_id:.150}' holds {meta.data_shape} data; this needs a list.",
            workspace_id=meta.workspace_id[:150],
            expected_shape="list",
            actual_shape=meta.data_shape,
        )


def of_commit(words: Sequence[bytes], meta: WorkspaceMeta) -> ToolstashError:
    """What the lines of a commit that was refused say (see commit.lua)."""
    if words[0] == b"conflict":
        return conflict(meta, unpack(words[1]), unpack(words[2]))
    if words[0] == b"overtaken":
        return overtaken(meta)
    if words[0] == b"quota":
        return over_quota(meta.limits.max_session_bytes)
    return StoreUnavailableError("The data store lost a part of the result while it was being written.")
