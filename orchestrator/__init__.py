"""The core, the store, the engine, the model adapters, and the dispatch to the queue.

Tool modules need three names of all this: ``from orchestrator import Retry, current_call, tool``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.current import Retry, current_call
    from orchestrator.tools import tool

__all__ = ["Retry", "current_call", "tool"]


def __getattr__(name: str) -> object:
    """The names at their first use, so that importing any part of the package stays quick."""
    if name == "tool":
        from orchestrator.tools import tool

        return tool
    if name in __all__:
        from orchestrator import current

        return getattr(current, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
