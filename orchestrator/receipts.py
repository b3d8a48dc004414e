"""Receipts: how a request that is sent again is known, when its answer was lost on the way.

A receipt is written in the same commit as the effect of the request, under a name that all tries of
the request have in common. The commit is guarded by the receipt's revision, so two tries at once
have one effect.

Some clients name their requests (``is_named``): then any receipt answers. Others only say "this is
a repetition" and send the same again; two requests of theirs that are equal cannot be told apart.
So a first try of theirs never finds itself answered, unless its own repetition overtook it; and a
repetition is not answered by a receipt that the client has gone on from (``repetition.py``).
"""

from dataclasses import dataclass

from orchestrator.errors import InvalidValue
from orchestrator.records import Record


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a client's request. ``ttl_ms`` is how long its receipt is kept; ``key`` is what
    the client calls the request, if no other request of his may be called so.
    """

    name: str
    ttl_ms: int
    key: str = ""
    is_named: bool = False
    is_repetition: bool = False


class Receipt(Record):
    """A request was carried out; ``made`` is the id of what it made, if it made something."""

    made: str
    made_ms: int
    by_repetition: bool = False


@dataclass(frozen=True, slots=True)
class Filed:
    """What is filed under a name, and the revision to guard; 0: nothing."""

    revision: int = 0
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """The receipt to write together with an effect, if what is filed has still this revision."""

    name: str
    revision: int
    receipt: Receipt
    ttl_ms: int


def find_answer(attempt: Attempt, filed: Filed, at_first: Filed) -> Receipt | None:
    """The receipt that answers this try, if there is one; ``at_first`` was filed when it began."""
    receipt = filed.receipt
    if receipt is None:
        return None
    was_overtaken = receipt.by_repetition and filed.revision != at_first.revision
    return receipt if attempt.is_named or attempt.is_repetition or was_overtaken else None


def refuse_other_use(attempt: Attempt, claimed_by: str) -> None:
    """Raises ``InvalidValue`` if the key was given to another request before."""
    if claimed_by != attempt.name:
        raise InvalidValue(
            "This Idempotency-Key was used before, with another body or for another URL. Use a new"
            " key for every request, and the same one only to repeat it.",
            "Idempotency-Key",
            "idempotency_key_reused",
        )
