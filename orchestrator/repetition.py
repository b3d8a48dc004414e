"""Carrying out a client's request once, however often it is sent."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from orchestrator.commands import AddMessages, Command, CreateRun
from orchestrator.errors import NotFound, StaleRevision
from orchestrator.receipts import Attempt, Filed, Receipt, Remember, find_answer, refuse_other_use
from orchestrator.store import PageQuery, Store

T = TypeVar("T")

ATTEMPTS: Final = 100
"""Each lost race means that somebody else made progress, so this many in a row is a fault."""

_NEWEST: Final = PageQuery(limit=1)


class AlreadyDone(Exception):
    """An earlier try of the request has made this. ``made`` is empty if it made nothing new."""

    def __init__(self, made: str, thread_id: str) -> None:
        super().__init__(made)
        self.made = made
        self.thread_id = thread_id


class Tries:
    """The tries of one request. Its receipt is in the partition of ``thread_id``, or ``{meta}``,
    under ``name`` or that of the attempt.
    """

    def __init__(
        self,
        store: Store,
        attempt: Attempt,
        made: str,
        thread_id: str | None = None,
        name: str | None = None,
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._name = name or attempt.name
        self._made = made
        self._thread_id = thread_id
        self._at_first: Filed | None = None
        self._filed = Filed()

    async def look_and(self, load: Callable[[], Awaitable[T]]) -> T:
        """What ``load`` returns, after a look in the same round trip; what a look finds matters
        more than what ``load`` misses.
        """
        looking, loading = asyncio.ensure_future(self.look()), asyncio.ensure_future(load())
        await asyncio.gather(looking, loading, return_exceptions=True)
        looking.result()
        return loading.result()

    async def look(self) -> None:
        """See what is filed. Raises ``AlreadyDone`` if that answers this try, ``InvalidValue`` if
        its key is another request's. One round trip.
        """
        self._filed, _ = await asyncio.gather(
            self._store.receipt(self._name, self._thread_id), self._claim_key()
        )
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
        receipt = Receipt(
            made=self._made, made_ms=now_ms, by_repetition=self._attempt.is_repetition
        )
        return Remember(self._name, self._filed.revision, receipt, self._attempt.ttl_ms)

    async def _claim_key(self) -> None:
        attempt = self._attempt
        if attempt.key:
            claimed_by = await self._store.claim_key(attempt.key, attempt.name, attempt.ttl_ms)
            refuse_other_use(attempt, claimed_by)

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
                return (
                    await self._has_newer_run(receipt)
                    or await self._has_newer_message(receipt)
                    or await self._has_newer_waiting(receipt)
                )

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

    async def _has_newer_waiting(self, receipt: Receipt) -> bool:
        """Whether a message of the client's came later and waits; the run's own are no news."""
        thread = (await self._store.load(self._thread_id or "")).aggregate.thread
        return any(
            message.created_ms > receipt.made_ms
            for one in thread.waiting
            if one.run_id != receipt.made
            for message in one.messages
        )


async def tries_of_new_thread(
    store: Store, attempt: Attempt, thread_id: str, command: Command
) -> tuple[str, Tries]:
    """The id of the thread that all tries of a request make (this one, if none was agreed on), and
    those tries. Requests that look alike make several threads, so the receipt is that of its own.
    """

    def tries_of(thread_id: str) -> Tries:
        made = command.run_id if isinstance(command, CreateRun) else thread_id
        return Tries(store, attempt, made, thread_id, f"{attempt.name}-{thread_id}")

    is_first = not (attempt.is_named or attempt.is_repetition)
    agreed = await store.reserve(attempt.name, thread_id, attempt.ttl_ms, is_first=is_first)
    if agreed != thread_id and await tries_of(agreed).are_spent():
        agreed = thread_id
    return agreed, tries_of(agreed)


async def once(
    store: Store,
    attempt: Attempt | None,
    write: Callable[[Remember | None], Awaitable[T]],
    made: str = "",
    thread_id: str | None = None,
) -> T:
    """What ``write`` returns, which has written the receipt together with its effect. Raises
    ``AlreadyDone``.
    """
    if attempt is None:
        return await write(None)
    tries = Tries(store, attempt, made, thread_id)
    for _ in range(ATTEMPTS):
        await tries.look()
        try:
            return await write(tries.remember(now_ms=0))  # made_ms is for what a thread makes
        except StaleRevision:
            continue
        except NotFound:
            await tries.look()  # it may be another try of this request that has removed it
            raise
    raise StaleRevision(attempt.name)


def made_by(command: Command) -> str:
    """The id of what the command makes, if it makes something."""
    match command:
        case CreateRun():
            return command.run_id
        case AddMessages():
            return command.messages[0].id if command.messages else ""
        case _:
            return ""
