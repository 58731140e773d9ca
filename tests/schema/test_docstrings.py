"""Docstrings in the three styles give the same parts."""

from __future__ import annotations

import functools

import pytest

from toolstash.schema.docstrings import DocText, read_docstring


def google(query, limit):
    """Search the papers.

    Looks in title and abstract.

    Args:
        query: What to look for;
            words or "a phrase".
        limit (int, optional): Most papers.

    Returns:
        A list of papers.

    Raises:
        ValueError: Never.
    """


def sphinx(query, limit):
    """Search the papers.

    Looks in title and abstract.

    :param query: What to look for;
        words or "a phrase".
    :param int limit: Most papers.
    :type query: str
    :returns: A list of papers.
    :rtype: list
    :raises ValueError: Never.
    """


def numpy(query, limit):
    """Search the papers.

    Looks in title and abstract.

    Parameters
    ----------
    query : str
        What to look for;
        words or "a phrase".
    limit : int, optional
        Most papers.

    Returns
    -------
    list
        A list of papers.

    Raises
    ------
    ValueError
        Never.
    """


@pytest.mark.parametrize("function", [google, sphinx, numpy])
def test_every_style_gives_the_same_parts(function) -> None:
    assert read_docstring(function) == DocText(
        summary="Search the papers.",
        description="Search the papers.\n\nLooks in title and abstract.",
        parameters={"query": 'What to look for; words or "a phrase".', "limit": "Most papers."},
    )


def test_sections_that_are_for_the_reader_stay() -> None:
    def function(a, b):
        """Do it.

        Example:
            do(1, 2)

        Args:
            a, b: Two numbers.

        Note:
            Slow: it takes a minute.
        """

    text = read_docstring(function)
    assert text.description == "Do it.\n\nExample:\n    do(1, 2)\n\nNote:\n    Slow: it takes a minute."
    assert text.parameters == {"a": "Two numbers.", "b": "Two numbers."}


def test_numpy_notes_after_the_sections_stay() -> None:
    def function(a):
        """Do it.

        Parameters
        ----------
        a : int
            A number.

        Notes
        -----
        Slow.
        """

    assert read_docstring(function).description == "Do it.\n\nNotes\n-----\nSlow."


def test_no_docstring_is_all_empty() -> None:
    def function(): ...

    assert read_docstring(function) == DocText()


def test_a_docstring_that_breaks_its_style_is_all_description() -> None:
    def function(a):
        """Do it.

        Args:
        a without a colon
        """

    text = read_docstring(function)
    assert text == DocText("Do it.", "Do it.\n\nArgs:\na without a colon", {})


def test_partials_and_objects_show_their_own_text() -> None:
    class Caller:
        """A class."""

        def __call__(self, a):
            """Call it."""

    assert read_docstring(functools.partial(google, limit=1)).summary == "Search the papers."
    assert read_docstring(Caller()).summary == "Call it."


def test_variadic_names_lose_their_stars() -> None:
    def function(*args, **kwargs):
        """Do it.

        Args:
            *args: Numbers.
            **kwargs: Options.
        """

    assert read_docstring(function).parameters == {"args": "Numbers.", "kwargs": "Options."}
