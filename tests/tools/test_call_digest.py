"""Only equal calls of the same code have the same digest, in every process; in doubt none has another's."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pydantic
import pytest

from toolstash.tools.call_digest import CHARS_OF_A_VALUE, MOST_VALUES, digest_of


def load(query: str) -> list[str]:
    return [query]


def of(value: Any, *functions: Callable[..., Any], options: object = ()) -> str:
    return digest_of(list(functions) or [load], options, {"query": value}).text


class Model(pydantic.BaseModel):
    a: Any
    hidden: Any = pydantic.Field(default=None, exclude=True)


class OtherModel(pydantic.BaseModel):
    a: Any


@dataclasses.dataclass
class Record:
    a: Any


@attrs.define
class Attribute:
    a: Any


class Pair(NamedTuple):
    a: Any


class Plain:
    """Of such an object nothing is known."""


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    _secret: int = pydantic.PrivateAttr(0)
    a: int = 0

    @classmethod
    def with_secret(cls, secret: int) -> Open:
        made = cls()
        made._secret = secret
        return made


class Flags(enum.Flag, boundary=enum.KEEP):
    ONE = 1


@dataclasses.dataclass
class Listed(list[int]):
    a: int = 0


@dataclasses.dataclass
class More(Record):
    b: dataclasses.InitVar[int] = 0

    def __post_init__(self, b: int) -> None:
        self.kept = b


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    name: str

    def fetch(self, query: str) -> list[str]:
        return [self.name, query]


@dataclasses.dataclass
class Unset:
    a: int = dataclasses.field(init=False)


VALUES: list[Callable[[], Any]] = [
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: float("-inf"),
    lambda: None,
    lambda: 1,
    lambda: 1.0,
    lambda: True,
    lambda: "1",
    lambda: b"1",
    lambda: "MQ==",
    lambda: 2**64,
    lambda: 2**64 + 1,
    lambda: [float("nan")],
    lambda: [None],
    lambda: [b"a"],
    lambda: ["YQ=="],
    lambda: {1: 2},
    lambda: {"1": 2},
    lambda: {"a": 1, "b": 2},
    lambda: {"b": 2, "a": 1},
    lambda: [(1,)],
    lambda: [[1]],
    lambda: {1, "x", "y"},
    lambda: frozenset({1, "x", "y"}),
    lambda: [Decimal("1.5")],
    lambda: [Decimal("1.50")],
    lambda: [1.5],
    lambda: [Path("a")],
    lambda: ["a"],
    lambda: Model(a=1),
    lambda: Model(a=1, hidden=2),
    lambda: OtherModel(a=1),
    lambda: {"a": 1},
    lambda: Record(1),
    lambda: Attribute(1),
    lambda: Pair(1),
    lambda: "a,b",
    lambda: ["a", "b"],
    lambda: ["a,b"],
    lambda: "\ud800",
    lambda: Open(b=1),
    lambda: Open(b=2),
    lambda: Open.with_secret(1),
    lambda: Open.with_secret(2),
    lambda: Flags(4),
    lambda: Flags(8),
    lambda: Slotted("a"),
]


@pytest.mark.parametrize("make", VALUES)
def test_equal_values_have_one_digest(make: Callable[[], Any]) -> None:
    assert of(make()) == of(make())


def test_other_values_have_another() -> None:
    for one, other in itertools.combinations(VALUES, 2):
        assert of(one()) != of(other()), (one(), other())


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([1]),
        lambda: [iter([1])],
        lambda: collections.deque([iter([1])]),
        lambda: {"a": (one for one in [1])},
        Plain,
        lambda: [object()],
        lambda: bytearray(b"a"),
        lambda: [[]] * (MOST_VALUES + 1),
        lambda: "x" * (MOST_VALUES * CHARS_OF_A_VALUE),
        lambda: 10**5_000,
        lambda: Listed(1),
        lambda: More(1, 2),
        Unset,
        lambda: functools.reduce(lambda inner, _: [inner], range(100_000), []),
    ],
)
def test_what_cannot_be_told_makes_a_call_like_no_other(make: Callable[[], Any]) -> None:
    value = make()
    assert of(value) != of(value)


def test_what_can_be_read_once_is_not_read() -> None:
    numbers = iter([1, 2, 3])
    of(collections.deque([numbers]))
    of([numbers])
    assert list(numbers) == [1, 2, 3]


def made(name: str) -> Callable[[str], list[str]]:
    def inner(query: str) -> list[str]:
        return [name, query]

    return inner


def over(source: Any) -> Callable[[str], Any]:
    def inner(query: str) -> Any:
        return source

    return inner


def with_default(value: int) -> Callable[..., int]:
    def inner(query: str, *, default: int = value) -> int:
        return default

    return inner


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[str] = []

    def fetch(self, query: str) -> list[str]:
        return [self.name, query]

    def __call__(self, query: str) -> list[str]:
        return [self.name, query]


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def versions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    def fetch(query: str) -> list[str]:
        return [query, "old"]

    old = fetch

    def fetch(query: str) -> list[str]:
        return [query, "new"]

    return old, fetch


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made("A"), made("B")),
        (Client("A").fetch, Client("B").fetch),
        (Client("A"), Client("B")),
        (functools.partial(load, query="A"), functools.partial(load, query="B")),
        (functools.partial(load), functools.partial(made("A"))),
        versions(),
        tuple(map(logged, versions())),
        (load, logged(load)),
        (over(versions()[0]), over(versions()[1])),
        (over(Slotted("a")), over(Slotted("b"))),
        (Slotted("a").fetch, Slotted("b").fetch),
        (functools.partial(load, {"a": 1}), functools.partial(load, {"a": 2})),
        (with_default(1), with_default(2)),
    ],
)
def test_code_that_does_something_else(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    assert of("a", one) == of("a", one)
    assert of("a", one) != of("a", other)


def test_what_changes_on_the_way_does_not_count() -> None:
    client = Client("A")
    before = of("a", client.fetch)
    client.calls.append("x")
    assert of("a", client.fetch) == before
    assert of("a", load, options=("papers", 5)) != of("a", load, options=("papers", None))


PROGRAM = """
from toolstash.tools.call_digest import digest_of

def load(query):
    if query in {"alpha", "beta", "gamma"}:
        return [name for name in ("a", frozenset({"x", "y", "z"}))]

print(digest_of([load], ("papers",), {"query": {"alpha", "beta"}}).text)
"""


def test_every_process_says_the_same() -> None:
    told = [
        subprocess.run([sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2", "3")
    ]
    assert len({one.stdout for one in told}) == 1
    assert len(told[0].stdout.strip()) == 32
