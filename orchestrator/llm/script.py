"""The format of scripted models: what each attempt at a turn is answered with.

A script is ``{"turns": [TURN, ...]}``: YAML in a file of the scripts folder, or JSON that is the
whole text of a user message. docs/scripted-models.md shows every field at work.
"""

from typing import Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    field_validator,
)
from pydantic_core import PydanticCustomError


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class ScriptedCall(_Part):
    """A tool call. ``arguments``: an object, or a string that is sent as it is, valid or not."""

    name: str
    arguments: JsonValue = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _object_or_raw(cls, value: JsonValue) -> JsonValue:
        if isinstance(value, dict | str):
            return value
        raise PydanticCustomError("arguments", "Must be an object, or a string that is sent raw")


class ScriptedUsage(_Part):
    """Tokens that the model says it has used."""

    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0


class ScriptedError(_Part):
    """A failed attempt, as an HTTP provider would report it. ``times`` as in ``Turn``."""

    status: int = Field(ge=400, le=599)
    message: str = "The script says so."
    times: PositiveInt | None = None


class Turn(_Part):
    """One entry: the answer to ``times`` attempts, or with ``repeat`` to all that remain.

    An error is raised after the text and calls beside it, like a stream that breaks.
    """

    text: str | None = None
    refusal: str | None = None
    tool_calls: list[ScriptedCall] = []
    calls_first: bool = False
    delay_s: NonNegativeFloat = 0
    chunk_delay_s: NonNegativeFloat = 0
    usage: ScriptedUsage | None = None
    server_uses: dict[str, PositiveInt] = {}
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None
    error: ScriptedError | None = None
    times: PositiveInt = 1
    repeat: bool = False

    @property
    def span(self) -> int:
        """How many attempts this entry stands for, if it does not repeat for ever."""
        return (self.error and self.error.times) or self.times


DONE: Final = Turn(text="done")
SUMMARY: Final = Turn(text="(a summary)")


class Script(_Part):
    """The turns of one run, in order. Nobody keeps a position: the run's counters tell it.

    ``summary`` is what is written whenever older entries are to be summarised.
    """

    turns: list[Turn]
    summary: Turn = SUMMARY

    def at(self, position: int) -> Turn:
        """The entry for attempt number ``position`` of a run (from 0); past the end: "done"."""
        for turn in self.turns:
            if turn.repeat or position < turn.span:
                return turn
            position -= turn.span
        return DONE
