"""``runstate import`` and ``runstate export``: assistants, threads and messages in files.

A file is JSON Lines, or one JSON value: an object, an array, or the list envelope of the API.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from cli.client import Client
from cli.failure import Failure, Refusal
from cli.terminal import one_line

ORDER: Final = ("assistant", "thread", "thread.message")
"""What refers to something comes after it."""

Json = dict[str, Any]


async def import_file(client: Client, file: Path, tenant: str | None = None) -> None:
    """Imports what the file holds; prints what was left out and why, then the counts."""
    objects = sorted_for_import(read_objects(file))
    counts: Counter[str] = Counter()
    async with client:
        for one in objects:
            outcome, reason = await _import(client, one, tenant)
            counts[outcome] += 1
            if reason:
                print(f"skipped  {_name(one)}: {one_line(reason, 300)}")
    skipped = counts["different"] + counts["refused"]
    print(f"{counts['imported']} imported, {counts['same']} already there, {skipped} skipped")
    if skipped:
        raise Failure(f"{skipped} of {len(objects)} objects were not imported; see above.")


async def export_lines(client: Client, tenant: str | None = None) -> None:
    """Prints everything that is there, or what is a tenant's, one JSON object a line."""
    async with client:
        async for line in client.lines(_path("export", tenant)):
            print(line)


def read_objects(file: Path) -> list[Json]:
    """The objects of the file, in its order. Messages of a page that runs backwards are turned."""
    text = file.read_text(encoding="utf-8-sig")
    try:
        values = [json.loads(text)]
    except ValueError:
        values = [_parsed(number, line) for number, line in enumerate(text.split("\n"), 1) if line]
    return [one for value in values for one in _objects(value)]


def sorted_for_import(objects: list[Json]) -> list[Json]:
    """Assistants, then threads, then messages, each by age; what is of one age keeps its order."""
    return sorted(objects, key=lambda one: (_rank(one), _created_at(one)))


def _path(verb: str, tenant: str | None) -> str:
    query = "" if tenant is None else f"?{urlencode({'tenant': tenant})}"
    return f"/ops/{verb}{query}"


async def _import(client: Client, one: Json, tenant: str | None) -> tuple[str, str | None]:
    try:
        answer = await client.post(_path("import", tenant), one)
    except Refusal as refusal:
        return "refused", str(refusal)
    if answer["outcome"] == "different":
        names = ", ".join(answer["differs"])
        return "different", f"the server has another one with this id (it differs in {names})"
    return answer["outcome"], None


def _parsed(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as problem:
        raise Failure(f"Line {number} is not JSON: {problem}.") from problem


def _objects(value: Any) -> Iterator[Json]:
    if isinstance(value, list):
        for one in value:
            yield from _objects(one)
    elif not isinstance(value, dict):
        raise Failure(f"Expected objects of the API, but found {one_line(json.dumps(value), 60)}.")
    elif value.get("object") == "list":
        data = list(_objects(value.get("data") or []))
        yield from reversed(data) if _is_newest_first(data) else data
    else:
        yield value


def _is_newest_first(page: list[Json]) -> bool:
    """As the API gives pages by default: so within one second, too, the first is the newest."""
    return bool(page) and _created_at(page[0]) >= _created_at(page[-1])


def _rank(one: Json) -> int:
    kind = one.get("object")
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def _created_at(one: Json) -> int:
    time_s = one.get("created_at")
    return time_s if isinstance(time_s, int) else 0


def _name(one: Json) -> str:
    return one_line(f"{one.get('object', 'object')} {one.get('id', 'without an id')}")
