"""Where a reader is in the log of a run.

An event of the log is shown as up to a few frames. So the id of a frame is the id of its event in
the store's stream, followed for all but the first one by the number of the frame: ``1700-0``,
``1700-0.1``. Ids rise from frame to frame, whichever process sends them.
"""

import re
from typing import Final, NamedTuple, Self

from orchestrator.errors import InvalidValue

EventKey = tuple[int, int]
"""The id of an event as numbers, which compare as the events were written."""

_ID: Final = re.compile(r"(\d{1,15})(?:-(\d{1,15})(?:\.(\d{1,3}))?)?", re.ASCII)
_LAST_OF_A_MILLISECOND: Final = 2**64 - 1


class Place(NamedTuple):
    """Just behind the frame with this id; the first place, ``0``, is before everything."""

    ms: int = 0
    number: int = 0
    frame: int = 0

    @classmethod
    def read(cls, text: str, param: str = "after") -> Self:
        """The place that a client names in this parameter or header. Raises ``InvalidValue``."""
        match = _ID.fullmatch(text)
        if match is None:
            raise InvalidValue(
                f"Invalid event id '{text[:64]}'. Send one that a stream of this run has given, or"
                " 0 for the whole stream.",
                param,
            )
        return cls(*(int(part or 0) for part in match.groups()))

    @property
    def key(self) -> EventKey:
        """The event that the frame is of."""
        return self.ms, self.number

    def __str__(self) -> str:
        return event_id(self.key) + (f".{self.frame}" if self.frame else "")


def event_key(text: str) -> EventKey:
    """The id of an event, as the store gives it."""
    ms, number = text.split("-")
    return int(ms), int(number)


def event_id(key: EventKey) -> str:
    """The id of an event, as the store takes it."""
    return f"{key[0]}-{key[1]}"


def just_before(key: EventKey) -> EventKey:
    """The greatest id below this one, so that reading after it begins with the event itself."""
    ms, number = key
    if number:
        return ms, number - 1
    return (ms - 1, _LAST_OF_A_MILLISECOND) if ms else (0, 0)
