"""Carrying out a client's request once, however often it is sent."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from orchestrator.commands import AddMessages, Command, CreateRun
from orchestrator.errors import NotFound
from orchestrator.receipts import Attempt, Filed, Receipt, Remember, find_answer
from orchestrator.store import PageQuery, Store

T = TypeVar("T")

_NEWEST: Final = PageQuery(limit=1)


class AlreadyDone(Exception):
    """An earlier try of the request has made this. ``made`` is empty if it made nothing new."""

    def __init__(self, made: str, thread_id: str) -> None:
        super().__init__(made)
        self.made = made
        self.thread_id = thread_id


class Tries:
    """The tries of one request. Its receipt is in the partition of ``thread_id``, or ``{meta}``."""

    def __init__(
        self, store: Store, attempt: Attempt, made: str, thread_id: str | None = None
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._made = made
        self._thread_id = thread_id
        self._at_first: Filed | None = None
        self._filed = Filed()

    async def look_and(self, load: Callable[[], Awaitable[T]]) -> T:
        """What ``load`` returns, after a look in the same round trip."""
        loaded, _ = await asyncio.gather(load(), self.look())
        return loaded

    async def look(self) -> None:
        """See what is filed. Raises ``AlreadyDone`` if that answers this try. One round trip."""
        self._filed = await self._store.receipt(self._attempt.name, self._thread_id)
        self._at_first = self._at_first or self._filed
        receipt = find_answer(self._attempt, self._filed, self._at_first)
        if receipt is not None and not await self._is_spent(receipt):
            raise AlreadyDone(receipt.made, self._thread_id or "")

    async def are_spent(self) -> bool:
        """Whether something is filed that answers nobody any more."""
        with suppress(AlreadyDone):
            await self.look()
            return self._filed.receipt is not None
        return False

    def remember(self, now_ms: int) -> Remember:
        """What is to be written together with the effect."""
        attempt = self._attempt
        receipt = Receipt(
            fingerprint=attempt.fingerprint,
            made=self._made,
            made_ms=now_ms,
            by_repetition=attempt.is_repetition,
        )
        return Remember(attempt.name, self._filed.revision, receipt, attempt.ttl_ms)

    async def _is_spent(self, receipt: Receipt) -> bool:
        """Whether the client has gone on from there: then it had the answer, and this is the
        repetition of a later, equal request that never arrived. After a thread it would have used
        it; after a message, run it; after a run, have said something or run again.
        """
        if self._attempt.is_named or self._thread_id is None or not receipt.made:
            return False
        match receipt.made.partition("_")[0]:
            case "thread":
                return await self._is_thread_used()
            case "msg":
                return await self._has_newer_run(receipt)
            case _:
                return await self._has_newer_run(receipt) or await self._has_newer_message(receipt)

    async def _is_thread_used(self) -> bool:
        try:
            return (await self._store.load(self._thread_id or "")).thread_revision > 1
        except NotFound:
            return True

    async def _has_newer_run(self, receipt: Receipt) -> bool:
        runs = await self._store.list_runs(self._thread_id or "", _NEWEST)
        return any(
            view.run.id != receipt.made and view.run.created_ms >= receipt.made_ms
            for view in runs.items
        )

    async def _has_newer_message(self, receipt: Receipt) -> bool:
        """Whether the last message is the client's and came later; the run's come before it."""
        messages = await self._store.list_messages(self._thread_id or "", _NEWEST)
        return any(
            message.run_id is None and message.created_ms > receipt.made_ms
            for message in messages.items
        )


async def tries_of_new_thread(
    store: Store, attempt: Attempt, thread_id: str, command: Command
) -> tuple[str, Tries]:
    """The id of the thread that all tries of a request make (this one, if none was agreed on), and
    those tries. Requests that look alike make several threads, so the receipt is that of its own.
    """

    def tries_of(thread_id: str) -> Tries:
        named = replace(attempt, name=f"{attempt.name}-{thread_id}")
        made = command.run_id if isinstance(command, CreateRun) else thread_id
        return Tries(store, named, made, thread_id)

    is_first = not (attempt.is_named or attempt.is_repetition)
    agreed = await store.reserve(attempt.name, thread_id, attempt.ttl_ms, is_first=is_first)
    if agreed != thread_id and await tries_of(agreed).are_spent():
        agreed = thread_id
    return agreed, tries_of(agreed)


def made_by(command: Command) -> str:
    """The id of what the command makes, if it makes something."""
    match command:
        case CreateRun():
            return command.run_id
        case AddMessages():
            return command.messages[0].id if command.messages else ""
        case _:
            return ""
