"""Rows and questions for hypothesis. Rows and questions draw from the same few values, so that questions find rows.

All of it is JSON: no NaN, no infinity, no lone surrogates. Integers beyond 64 bits come only with `huge=True`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.query.reference import output_key

Values = st.SearchStrategy[Any]

ABSENT = object()

# Few, so that two draws often meet.
FEW = [1, 2, "a", "ab", None]
FREQUENT = [None, True, False, 0, 1, 2, 2.0, "a", "b", "ab"]
NUMBERS = [-1, 5, 1.5, 0.1, -0.0, 1.0, 100, 2**53, 2**53 + 1, float(2**53), -(2**53) - 1, 10**16, 1e16, 2**63 - 1]
TEXTS = ["", "A", "abc", "5", "2.0", "true", "null", "2024-01-02", "é", "e\u0301", "\uffff", "\U0001f600", "a.b", "$x"]
LONG_DIGITS = [str(2**53 + 1), str(-(2**53) - 1), str(10**16), "0" + str(2**53 + 1), "123456789012345", str(2**53)]
HUGE = [2**64, 2**70, -(2**70), str(2**70)]

TOP_LEVEL_PATHS = ["a", "b", "tags", "list", "n"]
RARE_PATHS = ["c", "\\$x", "é", "nowhere", "dot", "a.x", "n.x.z", "nowhere.x", "n.0", "n.name"]
DEEP_PATHS = ["n.x", "n.y", "dot.key", "dot\\.key"]
LIST_PATHS = ["tags.0", "tags.2", "list.0", "list.1", "list.name", "list.0.name", "list.tags", "list.tags.0"]
DEEP_LIST_PATHS = ["list.inner.v", "list.inner", "list.inner.v.0"]

NUMBER_METRICS = ["sum", "mean", "median", "stddev", "p50", "p90", "p95", "p99"]
OTHER_METRICS = ["min", "max", "count_distinct", "values", "first", "last"]


def mostly(usual: Values, *others: Values, times: int = 3) -> Values:
    """The usual strategy `times` as often as each other one. (`one_of` drops repeats and opens nested choices.)"""
    choices = [usual] * times + list(others)
    return st.sampled_from(choices).flatmap(lambda chosen: chosen)


def scalars(*, huge: bool = True) -> Values:
    """Null, booleans, numbers and texts: mostly from a few, sometimes any."""
    anything = st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(-1e9, 1e9, allow_subnormal=False),
        st.text(max_size=6),
    )
    odd = [*NUMBERS, *TEXTS, *LONG_DIGITS, *(HUGE if huge else [])]
    return mostly(st.sampled_from(FREQUENT), st.sampled_from(odd), anything)


def objects(*, huge: bool = True) -> Values:
    """Small objects, one of whose values may be a list."""
    inner = scalars(huge=huge)
    return st.dictionaries(st.sampled_from(["x", "y", "0", "name"]), inner | st.lists(inner, max_size=2), max_size=3)


def values(*, huge: bool = True) -> Values:
    """What a field may hold: mostly scalars, sometimes a list or an object."""
    single = scalars(huge=huge)
    nested = single | st.lists(single, max_size=2)
    return mostly(single, st.lists(nested, max_size=3), objects(huge=huge))


def lists_of_objects(*, huge: bool = True) -> Values:
    """What `list.name`, `list.tags` and `list.inner.v` walk over, with an element here and there that is no object."""
    single = scalars(huge=huge)
    few = mostly(st.sampled_from(FEW), single, times=2)
    inner = fields({"v": few | st.lists(few, max_size=2)}, {"x": single})
    element = fields({"name": few, "tags": st.lists(few, max_size=3)}, {"inner": inner | st.lists(inner, max_size=3)})
    return st.lists(mostly(element, single), max_size=4)


def fields(present: dict[str, Values], rare: dict[str, Values]) -> Values:
    """Objects in which most of the present fields are there, and a rare one now and then."""

    def without_absent(pairs: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in pairs.items() if value is not ABSENT}

    chances = {name: st.sampled_from([True, True, True, False]) for name in present}
    chances |= {name: st.sampled_from([False, False, True]) for name in rare}
    each = {
        name: chance.flatmap(lambda there, name=name: {**present, **rare}[name] if there else st.just(ABSENT))
        for name, chance in chances.items()
    }
    return st.fixed_dictionaries(each).map(without_absent)


def object_rows(*, huge: bool = True) -> Values:
    """Rows that are objects; every field may be absent."""
    value, few = values(huge=huge), st.sampled_from(FEW)
    some = mostly(few, value, times=1)
    nested = fields({"x": some, "y": few}, {"0": few})
    many = lists_of_objects(huge=huge)
    present = {
        "a": some,
        "b": mostly(few, scalars(huge=huge)),
        "n": mostly(nested, many, value),
        "list": mostly(many, st.lists(few, max_size=4), value),
        "tags": mostly(st.lists(some, max_size=4), value),
    }
    rare = {
        "c": value,
        "n.x": some,
        "dot.key": some,
        "dot": mostly(fields({"key": some}, {}), value),
        "$x": value,
        "é": few,
    }
    return fields(present, rare)


def rows(*, huge: bool = True, max_size: int = 12) -> st.SearchStrategy[list[Any]]:
    """Lists of rows, a few of which are no objects."""
    whole = object_rows(huge=huge)
    bare = scalars(huge=huge) | st.lists(scalars(huge=huge), max_size=3)
    row = mostly(whole, bare, times=9)
    return mostly(st.lists(row, min_size=min(4, max_size), max_size=max_size), st.lists(row, max_size=max_size))


def paths() -> st.SearchStrategy[str]:
    """Paths into those rows; none starts with a bare `$`."""
    into_lists = st.sampled_from([*LIST_PATHS, *DEEP_LIST_PATHS])
    return mostly(
        st.sampled_from(TOP_LEVEL_PATHS), st.sampled_from(DEEP_PATHS), into_lists, st.sampled_from(RARE_PATHS)
    )


def path_lists(*, max_size: int = 4) -> st.SearchStrategy[list[str]]:
    """Lists of paths that give different keys."""
    return st.lists(paths(), min_size=1, max_size=max_size, unique_by=output_key)


def is_number_or_text(value: Any) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def operators(*, huge: bool = True, depth: int = 1) -> Values:
    """One or two operators of a field with their operands, or a `$not` of such."""
    value = mostly(st.sampled_from(FEW), values(huge=huge), times=1)
    middling = st.sampled_from([1, 1.5, 2, 3, "a", "aa", "b"])
    comparable = mostly(middling, scalars(huge=huge).filter(is_number_or_text))
    text = st.sampled_from(["", "a", "ab", "A", "2", "é", "e"]) | st.sampled_from(TEXTS)
    known: dict[str, Values] = {"$eq": value, "$ne": value, "$contains": value | text, "$startswith": text}
    known |= {name: st.lists(value, min_size=1, max_size=4) for name in ("$in", "$nin")}
    known |= dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), comparable)
    known["$exists"] = st.booleans()
    if depth > 0:
        known["$not"] = operators(huge=huge, depth=depth - 1)
    one, two = (st.lists(st.sampled_from(list(known)), min_size=n, max_size=n, unique=True) for n in (1, 2))
    names = mostly(one, two)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: known[name] for name in chosen}))


def field_conditions(*, huge: bool = True) -> Values:
    """Conditions on one or two fields, by value or by operators."""
    value = mostly(st.sampled_from(FEW), values(huge=huge), times=2)
    wanted = mostly(operators(huge=huge), value, times=2)
    one, two = (st.dictionaries(paths(), wanted, min_size=n, max_size=n) for n in (1, 2))
    return mostly(one, two)


def conditions(*, huge: bool = True, depth: int = 3) -> Values:
    """Conditions, with `$and`, `$or`, `$nor` and `$not` around each other up to the depth."""
    on_fields = field_conditions(huge=huge)
    if depth <= 1:
        return on_fields
    inner = conditions(huge=huge, depth=depth - 1)
    several = st.lists(inner, min_size=1, max_size=3)
    joined = st.one_of(
        st.fixed_dictionaries({"$and": several}),
        st.fixed_dictionaries({"$or": several}),
        st.fixed_dictionaries({"$nor": several}),
        st.fixed_dictionaries({"$not": inner}),
    )
    both = st.tuples(on_fields, joined).map(lambda pair: {**pair[0], **pair[1]})
    return mostly(joined, on_fields, both, times=1)


def sort_specs() -> st.SearchStrategy[list[tuple[str, bool]]]:
    """One to three keys of an order: a path, and whether it descends."""
    return st.lists(st.tuples(paths(), st.booleans()), min_size=1, max_size=3, unique_by=lambda key: key[0])


def metric_specs() -> st.SearchStrategy[str]:
    """All metrics over all paths."""
    names = st.sampled_from(NUMBER_METRICS) | st.sampled_from(OTHER_METRICS)
    path = mostly(st.sampled_from(["a", "b", "n.y"]), paths(), times=2)
    return mostly(st.builds("{}:{}".format, names, path), st.just("count"), times=6)


def groupings() -> Values:
    """What `group_by` takes. The names of metrics are never those of fields, and no later step reads them."""
    metrics = st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), metric_specs(), min_size=1)
    return st.fixed_dictionaries({"field": paths() | path_lists(max_size=3)}, optional={"metrics": metrics})


def sort_steps() -> Values:
    """What `sort` takes, in all its forms; `count` is there after a group_by without metrics."""
    path = mostly(paths(), st.just("count"), times=5)
    spelt = st.fixed_dictionaries({"field": path}, optional={"order": st.sampled_from(["asc", "desc"])})
    one = path | spelt
    return one | st.lists(one, min_size=1, max_size=3)


def steps(*, huge: bool = True) -> Values:
    """Any one step but count, search and sample."""
    position = st.integers(0, 8)
    arguments: dict[str, Values] = {
        "filter": mostly(conditions(huge=huge, depth=2), st.just({"count": {"$gte": 2}}), times=5),
        "sort": sort_steps(),
        "select": path_lists(max_size=5),
        "exclude": path_lists(),
        "limit": st.integers(0, 15),
        "skip": st.integers(0, 4),
        "slice": st.tuples(position, position).map(sorted),
        "unique": paths(),
        "flatten": mostly(st.sampled_from(["tags", "list", "list.tags", "n.x", "list.inner"]), paths(), times=1),
        "group_by": groupings(),
    }
    return st.one_of([st.fixed_dictionaries({name: argument}) for name, argument in arguments.items()])


def pipelines(*, huge: bool = True) -> st.SearchStrategy[list[Any]]:
    """One to five valid steps; a `count` only at the end."""
    some = st.lists(steps(huge=huge), min_size=1, max_size=5)
    counted = st.lists(steps(huge=huge), max_size=4).map(lambda before: [*before, {"count": True}])
    return mostly(some, counted)
