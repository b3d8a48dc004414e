"""How much of what was acknowledged survives, as far as the server tells."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from redis.exceptions import ResponseError

from orchestrator.storage.pipelining import Pipeliner

Level = Literal["always", "everysec", "none", "unknown"]

_LEVELS: Final[dict[str, Level]] = {"always": "always", "everysec": "everysec"}


@dataclass(frozen=True, slots=True)
class Durability:
    """``always``: all of it; ``everysec``: all but the last second when the machine fails;
    ``none``: nothing is promised; ``unknown``: the server does not let us ask.
    """

    level: Level
    warnings: tuple[str, ...] = ()


UNKNOWN: Final = Durability("unknown", ("The store does not tell how durable it is.",))


async def read_durability(pipeliner: Pipeliner) -> Durability:
    """The server's level, and what an operator should change. One round trip."""
    options = ("appendonly", "appendfsync", "maxmemory-policy")
    try:
        replies = await pipeliner.group(("CONFIG", "GET", option) for option in options)
    except ResponseError:
        return UNKNOWN
    if not all(replies):
        return UNKNOWN
    is_on, fsync, policy = (value.decode() for _, value in replies)
    level = _LEVELS.get(fsync, "none") if is_on == "yes" else "none"
    return Durability(level, tuple(_warnings(level, policy)))


def _warnings(level: Level, policy: str) -> Iterator[str]:
    if level == "none":
        yield (
            "The store may forget what it has acknowledged: set appendonly to yes, and appendfsync "
            "to always or everysec."
        )
    if policy != "noeviction":
        yield f"The store may evict state ({policy}): set maxmemory-policy to noeviction."
