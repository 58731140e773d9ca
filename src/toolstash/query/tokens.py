"""The tokens that a text index holds: words as `query.words` sees them, in letters that no query language touches.

Between two values, and between two runs of Chinese, Japanese or Korean signs, stands a `GAP`, so that no phrase
reaches over it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from toolstash.query.words import CJK, LONG, MARKED_LETTER, MARKS, fold, stem, stretches

GAP = "_"

_LONGEST_TOKEN = 100
_NUMERALS = frozenset({"inf", "infinity", "nan"})
_PIECE = re.compile(rf"{MARKED_LETTER}+|[{CJK}]+|\n")
_CJK_RUN = re.compile(f"[{CJK}]+")
_MARKED_ASCII = re.compile(f"[a-z0-9][{MARKS}]|[{MARKS}][a-z0-9]")


@lru_cache(maxsize=50_000)
def token_of(word: str) -> str:
    """A stem, or a pair of signs, as an index holds it: letters, digits and `_`, at most 100 of them.

    What begins with a letter from a to z stays as it is; other forms begin with `_` and cannot meet another word's.
    """
    if not word.isascii():
        token = "_u" + word.encode("utf-8", "surrogatepass").hex()
    else:
        token = word if word[0].isalpha() and word not in _NUMERALS else "_" + word
    if len(token) <= _LONGEST_TOKEN:
        return token
    return "_d" + hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()


def pairs_of(run: str) -> list[str]:
    """A run of Chinese, Japanese or Korean signs as its overlapping pairs; a sign alone stays one."""
    return [run[start : start + 2] for start in range(max(1, len(run) - 1))]


def tokens_of(texts: Iterable[str]) -> list[str]:
    """The tokens of a row's texts, in their order."""
    folded = fold("\n".join([text.replace("\n", " ") for text in texts]))
    pieces = _PIECE.findall(folded) if len(folded) <= LONG else list(_pieces_of_long(folded))
    return [_token(piece) for piece in pieces] if folded.isascii() else _mixed_tokens(pieces)


def _pieces_of_long(folded: str) -> Iterator[str]:
    for stretch in stretches(folded):
        yield from _PIECE.findall(stretch)


def _mixed_tokens(pieces: Sequence[str]) -> list[str]:
    tokens: list[str] = []
    was_run = False
    for piece in pieces:
        is_run = _CJK_RUN.match(piece) is not None
        if is_run and was_run:
            tokens.append(GAP)
        tokens += map(token_of, pairs_of(piece)) if is_run else [_token(piece)]
        was_run = is_run
    return tokens


@lru_cache(maxsize=50_000)
def _token(piece: str) -> str:
    return GAP if piece == "\n" else token_of(stem(piece))


def has_marked_ascii(text: str) -> bool:
    """Whether a mark touches a letter from a to z: which words are there then depends on the query."""
    return not text.isascii() and _MARKED_ASCII.search(text) is not None
