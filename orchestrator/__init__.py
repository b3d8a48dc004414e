"""The core, the store, the engine, the model adapters, and the dispatch to the queue.

Tool modules need one name of all this: ``from orchestrator import tool``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.tools import tool

__all__ = ["tool"]


def __getattr__(name: str) -> object:
    """``tool`` at its first use, so that importing any other part of the package stays quick."""
    if name == "tool":
        from orchestrator.tools import tool

        return tool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
