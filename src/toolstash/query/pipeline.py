"""Pipelines: steps compiled once, run over a table in a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, cast

from toolstash.errors import InvalidArgumentError, PipelineError
from toolstash.query.hints import first_hint
from toolstash.query.steps import OPERATIONS, Options, Sorted, State, Step, first_of_sorted
from toolstash.query.table import Table
from toolstash.query.work import Work

MOST_STEPS = 100
MOST_FIELDS_NAMED = 300
EXAMPLE = [{"filter": {"year": {"$gte": 2020}}}, {"sort": {"field": "year", "order": "desc"}}, {"limit": 10}]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps that are right in form, each with its place and name for what goes wrong while they run."""

    steps: Sequence[tuple[int, str, Step]]

    @property
    def window(self) -> tuple[int, int] | None:
        """The stretch of rows that the first steps take; None where they want more than a stretch with an end."""
        start, stop, _ = self._leading()
        return None if stop is None else (start, stop)

    def after_window(self) -> Pipeline:
        """The steps behind those that `window` stands for."""
        return Pipeline(self.steps[self._leading()[2] :])

    def _leading(self) -> tuple[int, int | None, int]:
        start, stop = 0, None
        for done, (_, _, step) in enumerate(self.steps):
            if step.window is None:
                return start, stop, done
            first, end = step.window
            ends = [bound for bound in (stop, None if end is None else start + end) if bound is not None]
            start, stop = start + first, min(ends, default=None)
        return start, stop, len(self.steps)

    @property
    def paths(self) -> list[str]:
        """The columns of the stored rows that the steps read."""
        paths: list[str] = []
        for _, _, step in self.steps:
            paths += step.paths
            if step.makes_rows:
                break
        return list(dict.fromkeys(paths))

    def run(self, table: Table, work: Work, *, is_whole: bool = True) -> State:
        """Takes all rows of the table through the steps. `is_whole` says whether these are all rows of a workspace.

        Raises:
            PipelineError: A step cannot go on; names it.
        """
        table.prepare(self.paths)
        state = State(table, range(len(table)), work)
        for place, name, step in self.steps:
            try:
                work.spend(step.cost * (1 + len(state.positions)) * (1 + state.table.depth))
                hint = first_hint(state.table, step.named) if is_whole and not state.hint else state.hint
                state = step.run(replace(state, hint=hint))
            except InvalidArgumentError as error:
                raise _in_step(place, name, error) from error
        return state


def compile_pipeline(steps: Any, options: Options = Options()) -> Pipeline:
    """A pipeline from its JSON form, a list of objects with one key each.

    Raises:
        PipelineError: Malformed, or more than 100 steps; names the step, what is wrong, and a right example.
    """
    listed = cast(list[Any], steps) if isinstance(steps, list) else [steps]
    if len(listed) > MOST_STEPS:
        raise PipelineError(
            f"The pipeline has {len(listed):,} steps; at most {MOST_STEPS}.",
            suggested_action="Use fewer steps: one filter can hold many conditions.",
        )
    compiled = [_compile(place, step, options) for place, step in enumerate(listed)]
    if len({path for _, _, step in compiled for path in step.named}) > MOST_FIELDS_NAMED:
        raise PipelineError(f"The pipeline names more than {MOST_FIELDS_NAMED} fields; use fewer.")
    for place, name, _ in compiled[:-1]:
        if name == "count":
            error = InvalidArgumentError(
                "count gives a number, so it must be the last step.", example=[{"limit": 10}, {"count": True}]
            )
            raise _in_step(place, name, error)
    return Pipeline(_joined(compiled))


def _compile(place: int, spec: Any, options: Options) -> tuple[int, str, Step]:
    if not isinstance(spec, dict) or len(cast(dict[str, Any], spec)) != 1:
        raise PipelineError(
            f"Step {place} is no object with one key.",
            step=place,
            example=EXAMPLE,
            suggested_action="Write each operation as a step of its own.",
        )
    ((name, params),) = cast(dict[str, Any], spec).items()
    build = OPERATIONS.get(name)
    if build is None:
        near = get_close_matches(name.lstrip("$").lower(), OPERATIONS, 1)
        raise PipelineError(
            f"Step {place}: unknown operation '{name:.60}'.",
            step=place,
            available_operations=list(OPERATIONS),
            example=EXAMPLE,
            suggested_action=f"Did you mean '{near[0]}'?" if near else "Use one of available_operations.",
        )
    try:
        return place, name, build(params, options)
    except InvalidArgumentError as error:
        raise _in_step(place, name, error) from error


def _in_step(place: int, name: str, error: InvalidArgumentError) -> PipelineError:
    details = {key: value for key, value in error.details.items() if key != "argument"}
    return PipelineError(
        f"Step {place} ({name}): {error.message}",
        suggested_action=error.suggested_action if error.suggested_action != error.default_action else _ACTION,
        **{"step": place} | details,
    )


_ACTION = "Correct the step and call the tool again."


def _joined(steps: Sequence[tuple[int, str, Step]]) -> list[tuple[int, str, Step]]:
    """The steps, with a sort by one field and the limit behind it made one."""
    joined: list[tuple[int, str, Step]] = []
    for place, name, step in steps:
        sort = _plain_sort(joined[-1][2]) if joined else None
        if sort is not None and name == "limit" and step.window is not None:
            joined[-1] = (joined[-1][0], joined[-1][1], first_of_sorted(sort, step.window))
        else:
            joined.append((place, name, step))
    return joined


def _plain_sort(step: Step) -> Sorted | None:
    """The sort that a step is, if it is one by one field and takes all rows."""
    if isinstance(step.asks, Sorted) and len(step.asks.orders) == 1 and step.takes is None:
        return step.asks
    return None
