"""The tools that the benchmarks' runs ask for: no work of their own, so that only ours is measured.
Those of the soak leave a line for each execution.
"""

import time
from pathlib import Path

from orchestrator import tool


@tool(side_effects="none")
def add(left: int, right: int) -> int:
    """Add two whole numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


@tool(side_effects="once")
def pay(tag: str, notes: str, seconds: float) -> str:
    """Pay once, and take some time over it.

    Args:
        tag: What the payment is for.
        notes: The file that gets the line.
        seconds: How long it takes.
    """
    return _note("pay", tag, notes, seconds)


@tool(side_effects="idempotent")
def look_up(tag: str, notes: str, seconds: float) -> str:
    """Look something up, and take some time over it.

    Args:
        tag: What to look up.
        notes: The file that gets the line.
        seconds: How long it takes.
    """
    return _note("look_up", tag, notes, seconds)


def _note(tool_name: str, tag: str, notes: str, seconds: float) -> str:
    with Path(notes).open("a") as lines:
        lines.write(f"{tool_name}:{tag}\n")
    time.sleep(seconds)
    return f"{tool_name} {tag}"
