"""The tools of QuietReads. What a model reads of them are the docstrings: they decide its choice.

All of them only read, so a call whose worker died may be repeated.
"""

from typing import Annotated, Any

from pydantic import Field

from examples.quietreads import library
from orchestrator import tool

Limit = Annotated[int, Field(ge=1, le=50)]


@tool(side_effects="none", timeout_s=10)
def get_user_profile() -> dict[str, Any]:
    """Who the reader is: favourite genres, likes and dislikes, pages per day, yearly goal.

    Call it before recommending anything. It says nothing about single books.
    """
    return library.profile()


@tool(side_effects="none", timeout_s=10)
def get_want_to_read(limit: Limit = 10) -> dict[str, Any]:
    """Books that the reader wants to read and has not begun, the latest wish first.

    Recommend from this list before anything else. Each book has title, author, pages and genre.

    Args:
        limit: How many books at most. Ask for 50 when you look for something special.
    """
    return _shelf("want", limit)


@tool(side_effects="none", timeout_s=10)
def get_recently_finished(limit: Limit = 5) -> dict[str, Any]:
    """Books that the reader has finished, the latest first, with the reader's rating of 1 to 5.

    Use it to learn the reader's taste, and for questions about "the last one". For what the reader
    thought of a book in words, use get_reading_notes.

    Args:
        limit: How many books at most; 1 gives the last one only.
    """
    return _shelf("finished", limit)


@tool(side_effects="none", timeout_s=10)
def get_reading_notes(search: str, limit: Limit = 5) -> dict[str, Any]:
    """The reader's own notes on books, the latest first: what they thought, in their words.

    The only source for questions such as "what did I think of …?". Never guess an opinion.

    Args:
        search: A word or a phrase, found in titles, authors and notes. Take a short part of the
            title rather than the whole question.
        limit: How many notes at most.
    """
    notes = library.notes_with(search, limit)
    return {"search": search, "shown": len(notes), "notes": notes}


@tool(side_effects="none", timeout_s=10)
def get_currently_reading() -> dict[str, Any]:
    """Books that the reader is in the middle of, with the page reached.

    Call it before recommending something, so that you neither suggest a book that is already being
    read nor a third long one.
    """
    return _shelf("reading", 50)


def _shelf(shelf: library.Shelf, limit: int) -> dict[str, Any]:
    """Books, and how many the shelf has in all, so that the model knows what it was not shown."""
    books = library.books_on(shelf, limit)
    return {"total": library.count_on(shelf), "shown": len(books), "books": books}
