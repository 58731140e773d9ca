"""Full-text search as docs/search.md has it, in plain and slow code: every row is taken apart into words.

It uses the library's folding and stemming, which are other libraries' work, and nothing else of it.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Any

from tests.query.reference import MISSING, read
from toolstash.query.words import fold, stem

CJK = re.compile(
    "[\u1100-\u11ff\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
THAI = re.compile("[\u0e00-\u0eff]")


def texts(value: Any) -> list[str]:
    """Every string and number in a value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts(inner)]
    return [] if value is None or isinstance(value, bool) else [json.dumps(value)]


def tokens(text: str) -> list[str]:
    """Words, and each CJK sign by itself."""
    found: list[str] = []
    word = ""
    for sign in text:
        if CJK.match(sign) or not (sign.isalnum() or unicodedata.category(sign) in ("Mn", "Mc")):
            found += [word] if word else []
            found += [sign] if CJK.match(sign) else []
            word = ""
        else:
            word += sign
    return found + ([word] if word else [])


def phrase_times(phrase: list[str], text: str, same: Any) -> int:
    """How often the tokens of the phrase follow each other, without overlaps."""
    held = tokens(text)
    times = place = 0
    while place + len(phrase) <= len(held):
        if all(same(a, b) for a, b in zip(phrase, held[place : place + len(phrase)], strict=True)):
            times += 1
            place += len(phrase)
        else:
            place += 1
    return times


def same_word(wanted: str, held: str) -> bool:
    return stem(wanted) == stem(held)


def starts(wanted: str, held: str) -> bool:
    return held.startswith(wanted)


def terms_of(query: str) -> list[tuple[str, str]]:
    """Kind and folded text of each term; repeats count once."""
    terms: list[tuple[str, str]] = []
    for phrase, chunk in re.findall(r'"([^"]+)"|(\S+)', query):
        term = ("phrase", fold(phrase)) if phrase else kind_of(chunk)
        if term[1]:
            terms.append(term)
    return terms or [("substring", fold(query.strip()))]


def kind_of(chunk: str) -> tuple[str, str]:
    core = fold(chunk.rstrip("*").lstrip("\"'`([{<").rstrip("\"'`)]}>.,;:!?"))
    held = tokens(core)
    if chunk.endswith("*") and held == [core] and not CJK.match(core):
        return "prefix", core
    is_run = all(CJK.match(sign) for sign in core)
    if THAI.search(core) or not held or (len(core) == 1 and is_run):
        return "substring", core
    whole = "".join(held)
    one_piece = held == [whole] or all(CJK.match(sign) for sign in whole)
    return ("substring" if one_piece and whole != core else "phrase"), core


def meaning(term: tuple[str, str]) -> tuple[str, tuple[str, ...]]:
    """What makes two terms the same: words count by their stems."""
    kind, text = term
    return kind, tuple(stem(token) for token in tokens(text)) if kind == "phrase" else (text,)


def times_in(term: tuple[str, str], text: str) -> int:
    kind, wanted = term
    folded = fold(text)
    if kind == "pair":
        return sum(folded.startswith(wanted, place) for place in range(len(folded)))
    if kind == "substring":
        return folded.count(wanted)
    if kind == "prefix":
        return phrase_times([wanted], folded, starts)
    return phrase_times(tokens(wanted), folded, same_word)


def search(rows: list[Any], query: str, fields: list[str] | None = None) -> tuple[dict[int, float], str]:
    """Scores by row, and which rung answered. The length of a row is that of its JSON."""
    shown = [row if fields is None else [v for path in fields if (v := read(row, path)) is not MISSING] for row in rows]
    words = terms_of(query)
    rungs: list[tuple[str, list[tuple[str, str]]]] = [("word", words)]
    prefixes = [("prefix", text) for kind, text in words if kind == "phrase" and len(tokens(text)) == 1]
    if [text for _, text in prefixes if not CJK.match(text)]:
        rungs.append(("prefix", words + prefixes))
    rungs.append(("substring", [("substring", text) for kind, text in words if kind == "phrase"]))
    for rung, asked in rungs:
        terms = list({meaning(term): term for term in asked}.values())
        counts = [[sum(times_in(term, text) for text in texts(value)) for value in shown] for term in terms]
        hit = [row for row in range(len(rows)) if any(times[row] for times in counts)]
        if hit:
            kinds = {term[0] for term, times in zip(terms, counts, strict=True) if any(times)}
            first = "word" if "phrase" in kinds else "prefix" if "prefix" in kinds else "substring"
            return scores(shown, terms, counts, hit), first if rung == "word" else rung
    return {}, ""


def words_of(term: tuple[str, str]) -> list[tuple[str, str]]:
    """What a term is scored by: a phrase by its words, a run of signs by its pairs of neighbours."""
    kind, text = term
    if kind != "phrase":
        return [term]
    words: list[tuple[str, str]] = []
    for run in re.findall(f"(?:{CJK.pattern})+|[^{CJK.pattern[1:]}+", text):
        if CJK.match(run):
            words += [("pair", run[place : place + 2]) for place in range(max(1, len(run) - 1))]
        else:
            words += [("phrase", token) for token in tokens(run)]
    return words


def scores(
    shown: list[Any], terms: list[tuple[str, str]], found_times: list[list[int]], hit: list[int]
) -> dict[int, float]:
    lengths = [len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + 1 for value in shown]
    average = sum(lengths) / len(lengths)
    found = dict.fromkeys(hit, 0.0)
    for term, term_times in zip(terms, found_times, strict=True):
        for word in words_of(term):
            times = [sum(times_in(word, text) for text in texts(value)) for value in shown]
            held = sum(1 for count in times if count)
            rarity = math.log(1 + (len(shown) - held + 0.5) / (held + 0.5))
            for row in hit:
                if term_times[row]:
                    length = 1 - 0.5 + 0.5 * lengths[row] / average
                    found[row] += rarity * times[row] * 2.2 / (times[row] + 1.2 * length)
    return found
