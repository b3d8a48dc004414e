"""What every SDK must live through: scripts, and how each of their runs ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

WORDS: Final = "The tide goes out, and comes back."
TOOLS: Final = ("look_up", "measure", "fetch")
"""``fetch`` is served by a worker, the others are the client's."""

AWKWARD: Final = (
    "line\u2028paragraph\u2029next\u0085tab\x0bform\x0cunit\x1erecord \U0001f9a9 \ufffd"
    " \\u041f C:\\users\\u0041 \\\\ \\n 'quoted' \\\"twice\\\" </script>"
)
"""Where some clients see the end of a line, half a character, or an escape."""

LOOK: Final = {"name": "look_up", "arguments": {"word": "so long that it comes in several pieces"}}
MEASURE: Final = {"name": "measure", "arguments": {"of": "it", "unit": "fathom"}}
FETCH: Final = {"name": "fetch", "arguments": {"what": "the tables of the moon and of the tides"}}

PACE: Final = {"chunk_delay_s": 0.03}
SLOW: Final = {"chunk_delay_s": 20}
ANSWER: Final = {"text": WORDS, **PACE}
REFUSED: Final = {"status": 400, "message": "No."}
OVERLOADED: Final = {"status": 503, "message": "Later."}


@dataclass(frozen=True)
class Scenario:
    """``cancels_at``: the client cancels at the first event of this name; ``makes_thread``: the
    thread is made with the run; ``is_short_lived``: so are the runs of its server. ``limits`` are
    fields of the run.
    """

    name: str
    turns: tuple[dict[str, Any], ...]
    status: str
    cancels_at: str | None = None
    is_short_lived: bool = False
    makes_thread: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)

    def wanted(self, address: str) -> dict[str, Any]:
        """What a tour is told, to be played at this address."""
        return {
            "url": f"{address}/v1",
            "turns": self.turns,
            "tools": TOOLS,
            "cancels_at": self.cancels_at,
            "makes_thread": self.makes_thread,
            "limits": self.limits,
            "tells_of": None,
        }


CHARACTERS: Final = Scenario(
    "awkward characters",
    (
        {
            "text": AWKWARD,
            "tool_calls": [{"name": "look_up", "arguments": {"word": AWKWARD}}],
        },
        {"text": AWKWARD, **PACE},
    ),
    "completed",
)

SCENARIOS: Final = (
    CHARACTERS,
    Scenario("answer", (ANSWER,), "completed"),
    Scenario("answer on a new thread", (ANSWER,), "completed", makes_thread=True),
    Scenario("one call", ({"tool_calls": [LOOK], **PACE}, {"text": WORDS}), "completed"),
    Scenario(
        "calls on a new thread", ({"tool_calls": [LOOK]}, ANSWER), "completed", makes_thread=True
    ),
    Scenario(
        "three rounds of calls",
        (
            {"text": "I look.", "tool_calls": [LOOK, MEASURE, LOOK], **PACE},
            {"tool_calls": [MEASURE, LOOK]},
            {"tool_calls": [LOOK]},
            ANSWER,
        ),
        "completed",
    ),
    Scenario(
        "words behind calls",
        (
            {"tool_calls": [LOOK, FETCH], "text": "I look.", "calls_first": True, **PACE},
            {"tool_calls": [FETCH], "text": "I look again.", "calls_first": True},
            ANSWER,
        ),
        "completed",
    ),
    Scenario(
        "words behind calls, cut",
        ({"tool_calls": [LOOK], "text": WORDS, "calls_first": True, "finish_reason": "length"},),
        "incomplete",
    ),
    Scenario(
        "words behind calls, filtered",
        (
            {
                "tool_calls": [LOOK],
                "text": WORDS,
                "calls_first": True,
                "finish_reason": "content_filter",
                **PACE,
            },
        ),
        "failed",
    ),
    Scenario("calls of workers", ({"tool_calls": [FETCH, FETCH], **PACE}, ANSWER), "completed"),
    Scenario(
        "workers and the client at once",
        (
            {"text": "I look.", "tool_calls": [FETCH, LOOK, FETCH], **PACE},
            {"tool_calls": [MEASURE, FETCH]},
            ANSWER,
        ),
        "completed",
    ),
    Scenario("refusal", ({"refusal": "I would rather not."},), "completed"),
    Scenario("refusal behind words", ({"text": "Well, ", "refusal": "no.", **PACE},), "completed"),
    Scenario("no words", ({"text": ""},), "completed"),
    Scenario("repeated words", ({**ANSWER, "error": OVERLOADED}, ANSWER), "completed"),
    Scenario(
        "repeated calls",
        (
            {"tool_calls": [LOOK], **PACE, "error": OVERLOADED},
            {"tool_calls": [LOOK], **PACE},
            ANSWER,
        ),
        "completed",
    ),
    Scenario("length", ({"text": WORDS, "finish_reason": "length"},), "incomplete"),
    Scenario(
        "a question that is too long",
        ({"text": WORDS * 100},),
        "incomplete",
        limits={"max_prompt_tokens": 256},
    ),
    Scenario("filter", ({**ANSWER, "finish_reason": "content_filter"},), "failed"),
    Scenario("failure", ({**ANSWER, "error": REFUSED},), "failed"),
    Scenario("failure amid calls", ({"tool_calls": [LOOK], **PACE, "error": REFUSED},), "failed"),
    Scenario(
        "failure behind calls and words",
        ({"tool_calls": [LOOK], "calls_first": True, **ANSWER, "error": REFUSED},),
        "failed",
    ),
    Scenario("cancel", ({"text": WORDS, **SLOW},), "cancelled", "thread.message.delta"),
    Scenario("cancel amid calls", ({"tool_calls": [LOOK], **SLOW},), "cancelled",
             "thread.run.step.delta"),
    Scenario("expiry", ({"text": WORDS, **SLOW},), "expired", is_short_lived=True),
    Scenario("expiry amid calls", ({"tool_calls": [LOOK], **SLOW},), "expired",
             is_short_lived=True),
)  # fmt: skip
