"""The library: one small SQLite file, made by whoever needs it first and only read afterwards.

The file is built under another name and then moved into place, so worker processes that start
together never see half of it. Its name carries a checksum: other books, another file.
"""

import sqlite3
import tempfile
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal

CONTENT: Final = (Path(__file__).parent / "library.sql").read_text(encoding="utf-8")

Shelf = Literal["finished", "reading", "want"]
Row = dict[str, Any]


def library_path() -> Path:
    """Where the file is: in the cache folder of the user who runs the worker."""
    name = f"library-{zlib.crc32(CONTENT.encode()):08x}.sqlite3"
    return Path.home() / ".cache" / "quietreads" / name


def profile() -> Row:
    """Who the reader is."""
    return _read("SELECT * FROM profile")[0]


def books_on(shelf: Shelf, limit: int) -> list[Row]:
    """The books of a shelf, newest first."""
    return _read('SELECT * FROM books WHERE shelf = ? ORDER BY "on" DESC LIMIT ?', shelf, limit)


def count_on(shelf: Shelf) -> int:
    """How many books the shelf has."""
    return int(_read("SELECT count(*) AS books FROM books WHERE shelf = ?", shelf)[0]["books"])


def notes_with(word: str, limit: int) -> list[Row]:
    """Notes with this word in text, title or author, newest first, with the book's rating."""
    return _read(
        """
        SELECT notes."on", title, author, rating, text FROM notes JOIN books USING (title)
        WHERE instr(lower(title || ' ' || author || ' ' || text), lower(?))
        ORDER BY notes."on" DESC LIMIT ?
        """,
        word.strip(),
        limit,
    )


def _read(query: str, *values: object) -> list[Row]:
    path = library_path()
    if not path.exists():
        _make(path)
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        db.row_factory = _row
        return db.execute(query, values).fetchall()


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    """A row by its column names, without empty fields."""
    names = (column[0] for column in cursor.description)
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        draft = Path(folder) / path.name
        with closing(sqlite3.connect(draft)) as db:
            db.executescript(CONTENT)
        draft.replace(path)
