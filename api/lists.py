"""Lists: the paging parameters, and the envelope that pages travel in."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from orchestrator.errors import InvalidValue
from orchestrator.store import Page, PageQuery


class Paging(BaseModel):
    """The query of every list. ``after`` and ``before`` are ids, both exclusive."""

    limit: int = Field(20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    before: str | None = None

    def query(self) -> PageQuery:
        """The same for the store. An empty cursor is none."""
        return PageQuery(self.limit, self.order, self.after or None, self.before or None)


PagingQuery = Annotated[Paging, Query()]


class HasId(Protocol):
    """Whatever can be a cursor."""

    @property
    def id(self) -> str:
        """The cursor."""
        ...


Item = TypeVar("Item")
Identified = TypeVar("Identified", bound=HasId)


class ListObject(TypedDict, Generic[Item]):
    """A page. The ids are null on an empty one: some clients walk on until they are."""

    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


def list_object(data: Sequence[Mapping[str, Any]], *, has_more: bool) -> ListObject[Any]:
    """The envelope around the objects of one page."""
    return ListObject(
        object="list",
        data=list(data),
        first_id=data[0]["id"] if data else None,
        last_id=data[-1]["id"] if data else None,
        has_more=has_more,
    )


def page_of(items: Sequence[Identified], query: PageQuery) -> Page[Identified]:
    """The page of a list that is in memory, oldest first."""
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    ids = [item.id for item in ordered]
    start = _place(ids, query.after, "after") + 1 if query.after else 0
    end = _place(ids, query.before, "before") if query.before else len(ordered)
    between = ordered[start:end]
    is_backward = query.before is not None and query.after is None
    shown = between[-query.limit :] if is_backward else between[: query.limit]
    return Page(tuple(shown), has_more=len(between) > query.limit)


def _place(ids: list[str], cursor: str, param: str) -> int:
    if cursor not in ids:
        raise InvalidValue(f"No object of this list has the id '{cursor}'.", param)
    return ids.index(cursor)
