"""What every SDK must live through: scripts, and how each of their runs ends."""

from dataclasses import dataclass
from typing import Any, Final

WORDS: Final = "The tide goes out, and comes back."
LOOK: Final = {"name": "look_up", "arguments": {"word": "so long that it comes in several pieces"}}
MEASURE: Final = {"name": "measure", "arguments": {"of": "it", "unit": "fathom"}}
PACE: Final = {"chunk_delay_s": 0.03}


@dataclass(frozen=True)
class Scenario:
    """``cancels``: the client cancels at the first word. ``ttl_s`` is that of its server."""

    name: str
    turns: tuple[dict[str, Any], ...]
    status: str
    cancels: bool = False
    is_short_lived: bool = False


SCENARIOS: Final = (
    Scenario("answer", ({"text": WORDS, **PACE},), "completed"),
    Scenario("one call", ({"tool_calls": [LOOK], **PACE}, {"text": WORDS}), "completed"),
    Scenario(
        "two rounds of parallel calls",
        (
            {"text": "I look.", "tool_calls": [LOOK, MEASURE, LOOK], **PACE},
            {"tool_calls": [MEASURE, LOOK]},
            {"text": WORDS, **PACE},
        ),
        "completed",
    ),
    Scenario("length", ({"text": WORDS, "finish_reason": "length"},), "incomplete"),
    Scenario(
        "failure",
        ({"text": WORDS, "chunk_delay_s": 0.05, "error": {"status": 400, "message": "No."}},),
        "failed",
    ),
    Scenario("cancel", ({"text": WORDS, "chunk_delay_s": 20},), "cancelled", cancels=True),
    Scenario("expiry", ({"text": WORDS, "chunk_delay_s": 20},), "expired", is_short_lived=True),
)
