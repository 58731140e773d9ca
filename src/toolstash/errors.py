"""Every error that toolstash raises, one tree.

    ToolstashError
    ├── InvalidArgumentError            an argument that no tool could accept as it is
    ├── UnstorableValueError            a value with no JSON form; names the row and the field
    ├── SessionRequiredError            the program asked for sessions and a call came without one
    ├── WorkspaceNotFoundError          no such workspace for this caller (foreign ones look the same)
    │   └── WorkspaceExpiredError       it was there; its time to live is over or the server evicted it
    ├── WorkspaceTypeMismatchError      the tool explores another type
    ├── WorkspaceShapeMismatchError     the tool reads another shape (list, dict, scalar)
    ├── WorkspaceConflictError          an id that another producer or type holds
    ├── VersionConflictError            the workspace changed under the caller
    ├── PayloadTooLargeError            above max_items or max_bytes; nothing was stored
    ├── QuotaExceededError              above what one session may hold
    ├── PipelineError                   a pipeline step that cannot run
    ├── ProducerFailedError             it failed in the worker that ran it for all who asked at that moment
    ├── CallNotFoundError               no such call for this caller (foreign ones look the same)
    ├── CallExistsError                 a call of that id runs or waits, or its outcome is still kept
    ├── AnswerRefusedError              the answer to a suspended call does not count
    │   ├── AlreadyAnsweredError        somebody else was first
    │   ├── AnswerMismatchError         it is to another request, or its data does not fit
    │   ├── CallExpiredError            it came too late
    │   └── CallEndedError              the call is over: cancelled, declined, interrupted, done
    └── StoreUnavailableError           the store did not answer within its limits

`to_llm_dict()` gives the form that a model reads: `error`, `suggested_action` and what helps to repair the call.
"""

from __future__ import annotations

from typing import Any


class ToolstashError(Exception):
    """Root of the family.

    Args:
        message: What went wrong, in words that may be shown to a model.
        suggested_action: What the caller should do next.
        details: Further keys for the model, such as `valid_range`.
    """

    default_action = "Check the arguments and call the tool again."

    def __init__(self, message: str, *, suggested_action: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.suggested_action = suggested_action or self.default_action
        self.details = details

    def to_llm_dict(self) -> dict[str, Any]:
        """`error`, the details, `suggested_action`; details that are None are left out."""
        details = {key: value for key, value in self.details.items() if value is not None}
        return {"error": self.message, **details, "suggested_action": self.suggested_action}


class InvalidArgumentError(ToolstashError):
    """An argument of a wrong type, form or range."""

    default_action = "Correct the argument and call the tool again."


class UnstorableValueError(ToolstashError):
    """A value that has no JSON form. Nothing was stored."""

    default_action = "Return JSON-like values (text, numbers, booleans, null, lists, objects) from the tool."


class SessionRequiredError(ToolstashError):
    """`Ctx(require_session=True)` and no session is active, or an empty session id."""

    default_action = "Pass session_id=... to the dispatch, or open `with ctx.session(...)`."


class WorkspaceNotFoundError(ToolstashError):
    """No workspace of that id is visible to the caller."""

    default_action = "Use the id of an available workspace, or call the tool that produces the data."

    def __init__(self, message: str, *, workspace_id: str, suggested_action: str = "", **details: Any) -> None:
        super().__init__(message, suggested_action=suggested_action, workspace_id=workspace_id, **details)
        self.workspace_id = workspace_id


class WorkspaceExpiredError(WorkspaceNotFoundError):
    """The workspace existed and is gone: its time to live is over, or the server evicted part of it."""


class WorkspaceTypeMismatchError(ToolstashError):
    """The workspace is of another type than the tool explores."""

    default_action = "Use a workspace of the expected type, or a tool made for this type."


class WorkspaceShapeMismatchError(ToolstashError):
    """The workspace has another data shape than the tool reads."""

    default_action = "Use one of the tools that the workspace's notice lists."


class WorkspaceConflictError(ToolstashError):
    """The id is held by a workspace of another producer or type; it was left as it is."""

    default_action = "Use another key or name."


class VersionConflictError(ToolstashError):
    """The workspace changed since the version that the caller expected; nothing was written."""

    default_action = "Read the workspace again and repeat the change."


class PayloadTooLargeError(ToolstashError):
    """The data is above a limit of the Ctx. Nothing was stored."""

    default_action = "Ask for less data: narrower arguments, fewer rows or fewer fields."


class QuotaExceededError(ToolstashError):
    """One workspace alone is above what a session may hold. Nothing was stored."""

    default_action = "Ask for less data."


class PipelineError(ToolstashError):
    """A step of a pipeline cannot run."""


class ProducerFailedError(ToolstashError):
    """The producer failed in the worker that ran it for all who asked for the same at that moment."""

    default_action = "Try other arguments once; if it fails again, tell the user that this tool is not working."


class CallNotFoundError(ToolstashError):
    """No call of that id is visible to the caller: it never waited, it is a foreign one, or its day is over."""

    default_action = "Use a call_id from pending_calls()."


class CallExistsError(ToolstashError):
    """The `call_id` belongs to a call that runs or waits, or whose outcome is still kept. Nothing was run."""

    default_action = "Read its outcome with call_result(call_id), or give the new call an id of its own."


class AnswerRefusedError(ToolstashError):
    """The answer was not taken; the call is as it was."""

    default_action = "Look at pending_calls() for what waits for an answer."


class AlreadyAnsweredError(AnswerRefusedError):
    """Somebody else answered first."""


class AnswerMismatchError(AnswerRefusedError):
    """The answer is to another request than the one that waits, or its data does not fit the request's schema."""

    default_action = "Answer the request that waits, with data that fits its schema."


class CallExpiredError(AnswerRefusedError):
    """The time to answer was over, by the store's clock."""


class CallEndedError(AnswerRefusedError):
    """The call is over: it was cancelled, declined or interrupted, or it is done."""


class StoreUnavailableError(ToolstashError):
    """The store could not do the work within its time limits, or refused it."""

    default_action = "Try again in a moment; if it persists, tell the user that the data store is unavailable."
