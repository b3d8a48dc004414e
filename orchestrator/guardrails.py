"""What an operator's guardrails are, and what their functions may return.

    from orchestrator import Rewrite, Stop

    def no_cards(text: str) -> Rewrite | Stop | None:
        if "password" in text:
            return Stop("Please keep passwords to yourself.")
        return Rewrite(CARD.sub("(a card number)", text)) if CARD.search(text) else None

The app file says where each function looks. At calls and outputs it is given the tool's name, too.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from orchestrator.records import GuardPoint

AT_TOOLS: Final = frozenset({GuardPoint.TOOL_INPUT, GuardPoint.TOOL_OUTPUT})
"""Where a function is given the tool's name."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Put this in the place of the text; rules that follow see it. The same text is no change."""

    text: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Do not let the text pass, and say this instead."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("Say something instead: a refusal has words.")


Verdict = Rewrite | Stop | None
"""``None``: let it pass as it is."""


@dataclass(frozen=True, slots=True)
class Guardrail:
    """One rule. ``name``: for logs and texts; ``function`` is plain (it gets a thread) or async (it
    shares the engine's loop); ``tools``: only at calls of these; ``models``: only at what those say
    whose names match one of these patterns; empty: of all.
    """

    name: str
    on: GuardPoint
    function: Callable[..., Verdict | Awaitable[Verdict]]
    timeout_s: float = 2.0
    tools: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()

    def is_about(self, tool: str | None) -> bool:
        """Whether it looks at this tool."""
        return not self.tools or tool in self.tools

    def is_for(self, model: str) -> bool:
        """Whether it looks at what this model says."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)
