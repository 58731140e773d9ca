"""What a search query asks for: words, phrases, prefixes and parts of words.

A query is split at spaces; text in double quotes is one phrase. Nothing in it is an operator except a `*` at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from toolstash.errors import InvalidArgumentError
from toolstash.query.tokens import pairs_of, token_of
from toolstash.query.words import CJK, LETTER, MARKED_LETTER, SEPARATOR, WITHOUT_SPACES, fold, shared_start, stem

MOST_QUERY_CHARS = 1_000
MOST_WORDS = 64

Rung = Literal["word", "prefix", "substring"]

_CHUNK = re.compile(r'"([^"]+)"|(\S+)')
_PIECE = re.compile(rf"{MARKED_LETTER}+|[{CJK}]+")
_CJK_RUN = re.compile(f"[{CJK}]+")
_UNSPACED = re.compile(f"[{WITHOUT_SPACES}]")
_PUNCTUATION = "\"'`([{<«“”‘’", "\"'`)]}>»“”‘’.,;:!?…。、！？"
_LITERALS = frozenset({"true", "false", "null"})
_STRUCTURE = re.compile(r'[ ,:{}\[\]"\\\x00-\x1f]')


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to find in folded text.

    Attributes:
        needle: A text that is in every match.
        head: The regular expression of its first piece. It is plain, so that a scan takes linear time.
        rest: That of what must follow; "" for nothing. Its words are its groups.
        head_stem: What the first piece must have as its stem; None where there is nothing to check.
        rest_stems: The same for the words of the rest.
        rung: How it matches.
        proves: Whether a match in the JSON text of a row is one in its values: the text also holds commas, brackets,
            true, false and null, which are no values of the kind that is searched.
        words: For a phrase, the terms of its words: a row that has the phrase is scored by them.
        tokens: What a text index has in its place, one after the other; () where only a scan can find it.
    """

    needle: str
    head: str
    rest: str
    head_stem: str | None
    rest_stems: tuple[str, ...]
    rung: Rung
    proves: bool
    stem: Callable[[str], str]
    words: tuple[Term, ...] = ()
    tokens: tuple[str, ...] = ()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the term stands in a text, without overlaps."""
        heads = self._heads(text)
        return self._followed(heads, text) if self.rest else (match.span() for match in heads)

    def _heads(self, text: str) -> Iterator[re.Match[str]]:
        """Where the first piece stands."""
        matches = re.finditer(self.head, text)
        if self.head_stem is None:
            yield from matches
            return
        known: dict[str, bool] = {}
        for match in matches:
            word = match[0]
            if word not in known:
                known[word] = self.stem(word) == self.head_stem
            if known[word]:
                yield match

    def _followed(self, heads: Iterator[re.Match[str]], text: str) -> Iterator[tuple[int, int]]:
        """Where the rest follows the first piece."""
        follow = re.compile(self.rest).match
        reached = 0
        for head in heads:
            if head.start() < reached:
                continue
            rest = follow(text, head.end())
            if rest is not None and tuple(map(self.stem, rest.groups())) == self.rest_stems:
                reached = rest.end()
                yield head.start(), reached


def blank(text: str) -> str:
    """A value's text with the signs that end values and rows as spaces, so that they separate words like others."""
    return text.replace('"', " ").replace("\n", " ")


@dataclass(frozen=True, slots=True)
class Query:
    """The terms to try, rung by rung: each rung only where the one before found nothing."""

    rungs: tuple[tuple[Rung, tuple[Term, ...]], ...]
    case_sensitive: bool

    @property
    def fold(self) -> Callable[[str], str]:
        """How texts are made comparable with the terms."""
        return str if self.case_sensitive else fold


def parse_query(query: str, *, case_sensitive: bool = False) -> Query:
    """Reads a query.

    Raises:
        InvalidArgumentError: It is empty, or has more than 1,000 characters or 64 words.
    """
    if not query.strip():
        raise _empty()
    if len(query) > MOST_QUERY_CHARS:
        raise _too_much(f"{len(query):,} characters; at most {MOST_QUERY_CHARS:,}")
    terms = _Terms(case_sensitive)
    for phrase, chunk in _CHUNK.findall(query):
        terms.add_phrase(phrase) if phrase else terms.add_chunk(chunk)
    return terms.query(query)


def _empty() -> InvalidArgumentError:
    return InvalidArgumentError("The query is empty.", argument="query", suggested_action="Pass the words to look for.")


def _too_much(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The query has {what} can be searched for at once.",
        argument="query",
        suggested_action="Pass only the few words that matter.",
    )


class _Terms:
    """Collects the terms of one query."""

    def __init__(self, case_sensitive: bool) -> None:
        self._fold: Callable[[str], str] = str if case_sensitive else fold
        self._stem: Callable[[str], str] = str if case_sensitive else stem
        self._first: dict[Term, None] = {}  # as sets that keep their order
        self._prefixes: dict[Term, None] = {}
        self._parts: dict[Term, None] = {}
        self._words = 0
        self._case_sensitive = case_sensitive

    def query(self, text: str) -> Query:
        """All terms by rung; a query of nothing but signs is looked for as it stands."""
        if not self._first:
            self._add_part(self._fold(text))
        if not self._first:
            raise _empty()
        if self._words > MOST_WORDS:
            raise _too_much(f"more words than the {MOST_WORDS} that")
        rungs: list[tuple[Rung, tuple[Term, ...]]] = [("word", tuple(self._first))]
        if self._prefixes:
            rungs.append(("prefix", tuple(self._first | self._prefixes)))
        if self._parts:
            rungs.append(("substring", tuple(self._parts)))
        return Query(tuple(rungs), self._case_sensitive)

    def add_phrase(self, text: str) -> None:
        """Words in quotes: they must follow each other."""
        if _UNSPACED.search(text):
            self._add_part(self._fold(text))
        else:
            folded = self._fold(text)
            self._words += max(1, len(_PIECE.findall(folded)))
            self._add_pieces(folded)

    def add_chunk(self, chunk: str) -> None:
        """What stands between two spaces."""
        is_prefix = chunk.endswith("*")
        core = chunk.rstrip("*") if is_prefix else chunk
        core = self._fold(core.lstrip(_PUNCTUATION[0]).rstrip(_PUNCTUATION[1]))
        pieces = _PIECE.findall(core)
        self._words += max(1, len(pieces))
        if is_prefix and len(pieces) == 1 and pieces[0] == core and not _CJK_RUN.match(core):
            self._add(self._prefix(core))
        elif not core:
            return
        elif not pieces or _UNSPACED.search(core) or (len(pieces) == 1 and len(pieces[0]) < len(core)):
            self._add(self._substring(core))
        else:
            self._add_pieces(core)

    def _add_pieces(self, folded: str) -> None:
        pieces = _PIECE.findall(folded)
        if not pieces:
            self._add_part(folded)
        elif len(pieces) == 1 and len(pieces[0]) == 1 and _CJK_RUN.match(pieces[0]):
            self._add(self._substring(pieces[0]))
        else:
            self._add(self._phrase(pieces))
            if len(pieces) == 1 and not _CJK_RUN.match(pieces[0]):
                self._prefixes.setdefault(self._prefix(pieces[0]))
            self._parts.setdefault(self._substring(folded.strip()))

    def _add_part(self, folded: str) -> None:
        """A part of a text; signs that folding drops are none."""
        if folded.strip():
            self._add(self._substring(folded.strip()))

    def _add(self, term: Term) -> None:
        self._first.setdefault(term)

    def _phrase(self, pieces: list[str]) -> Term:
        """Words one after the other with only signs between them; a single word is the shortest phrase."""
        are_cjk = [_CJK_RUN.match(piece) is not None for piece in pieces]
        if are_cjk == [True] and len(pieces[0]) == 2:
            return self._pair(pieces[0])
        stems = [None if is_cjk else self._stem(piece) for piece, is_cjk in zip(pieces, are_cjk, strict=True)]
        needle = pieces[0] if are_cjk[0] else self._start(pieces[0])
        rest: list[str] = []
        for place in range(1, len(pieces)):
            touching = are_cjk[place] or are_cjk[place - 1]
            rest.append(f"{SEPARATOR}{'*+' if touching else '++'}")
            piece = pieces[place]
            rest.append(re.escape(piece) if are_cjk[place] else f"({self._follower(piece)})")
        is_plain = len(pieces) == 1 or not all(piece[0].isdigit() for piece in pieces)
        return Term(
            words=self._words_of(pieces, are_cjk),
            tokens=_tokens_of(pieces, stems),
            needle=needle,
            head=re.escape(needle) if are_cjk[0] else self._word(needle),
            rest="".join(rest),
            head_stem=stems[0],
            rest_stems=tuple(word for word in stems[1:] if word is not None),
            rung="word",
            proves=is_plain and not self._has_literal(pieces),
            stem=self._stem,
        )

    def _words_of(self, pieces: list[str], are_cjk: list[bool]) -> tuple[Term, ...]:
        """The single words of a phrase; () for a word, which is scored by itself."""
        if are_cjk == [False]:
            return ()
        words: list[Term] = []
        for piece, is_cjk in zip(pieces, are_cjk, strict=True):
            words += [self._pair(pair) for pair in pairs_of(piece)] if is_cjk else [self._phrase([piece])]
        return tuple(words)

    def _pair(self, pair: str) -> Term:
        """Two signs that follow each other. Of three that are the same, the middle one is in two pairs."""
        head = f"{pair[0]}(?={pair[1]})" if len(pair) == 2 else pair
        return Term(pair, head, "", None, (), "word", True, self._stem, tokens=(token_of(pair),))

    def _has_literal(self, pieces: list[str]) -> bool:
        literals = set(map(self._stem, _LITERALS))
        return any(self._stem(piece) in literals for piece in pieces)

    def _start(self, word: str) -> str:
        return word if self._case_sensitive else shared_start(stem(word))

    def _letter(self, word: str) -> str:
        """What goes on a word like this one; marks can stand only where folding has left them."""
        return LETTER if word.isascii() and not self._case_sensitive else MARKED_LETTER

    def _word(self, start: str) -> str:
        """A pattern for a word with that start. The start comes first, because a plain text is found fast."""
        letter = self._letter(start)
        return f"{re.escape(start)}(?<!{letter}(?s:.{{{len(start)}}})){letter}*+"

    def _follower(self, word: str) -> str:
        return f"{re.escape(self._start(word))}{self._letter(word)}*+"

    def _prefix(self, word: str) -> Term:
        proves = not any(literal.startswith(word) for literal in _LITERALS)
        return Term(word, self._word(word), "", None, (), "prefix", proves, self._stem)

    def _substring(self, text: str) -> Term:
        proves = not _STRUCTURE.search(text) and not any(text in literal for literal in _LITERALS)
        needle = text if proves else max(_STRUCTURE.split(text), key=len)
        return Term(needle, re.escape(text), "", None, (), "substring", proves, self._stem)


def _tokens_of(pieces: Sequence[str], stems: Sequence[str | None]) -> tuple[str, ...]:
    """The tokens of words, or of one run of signs; () where the two are mixed."""
    if len(pieces) == 1 and stems[0] is None:
        return tuple(map(token_of, pairs_of(pieces[0])))
    words = [word for word in stems if word is not None]
    return tuple(map(token_of, words)) if len(words) == len(stems) else ()
