"""The core, the store, the engine, the model adapters, and the dispatch to the queue.

Tool modules need three names of all this: ``from orchestrator import Retry, current_call, tool``;
guardrails need two: ``from orchestrator import Rewrite, Stop``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.current import Retry, current_call
    from orchestrator.guardrails import Rewrite, Stop
    from orchestrator.tools import tool

__all__ = ["Retry", "Rewrite", "Stop", "current_call", "tool"]

_ROOMS = {"Rewrite": "guardrails", "Stop": "guardrails", "tool": "tools"}
"""Where the names are that are not in ``current``."""


def __getattr__(name: str) -> object:
    """The names at their first use, so that importing any part of the package stays quick."""
    if name in __all__:
        room = import_module(f"orchestrator.{_ROOMS.get(name, 'current')}")
        return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
