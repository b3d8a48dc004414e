"""Tools that leave a line in a file each time they run, so that a test can count."""

import os
import time
from pathlib import Path

from orchestrator import tool


def _note(tag: str) -> None:
    with Path(os.environ["RUNSTATE_TEST_LINES"]).open("a") as lines:
        lines.write(f"{tag}\n")


@tool(side_effects="once")
def pay(tag: str, seconds: float = 0.0) -> str:
    """Pay once, and take some time over it.

    Args:
        tag: What the payment is for.
        seconds: How long it takes.
    """
    _note(tag)
    time.sleep(seconds)
    return f"paid {tag}"


@tool(side_effects="idempotent")
def look(tag: str, seconds: float = 0.0) -> str:
    """Look something up, and take some time over it.

    Args:
        tag: What to look up.
        seconds: How long it takes.
    """
    _note(tag)
    time.sleep(seconds)
    return f"seen {tag}"


@tool(side_effects="none")
def add(left: int, right: int) -> int:
    """Add two whole numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


@tool(side_effects="none", timeout_s=1.0, max_attempts=1)
def misbehave(how: str) -> object:
    """Do something that a tool should not do.

    Args:
        how: What to do.
    """
    match how:
        case "raise":
            raise RuntimeError("out of paper")
        case "sleep":
            time.sleep(60)
            return None
        case "exit":
            return os._exit(3)
        case "no_json":
            return {object()}
        case _:
            return "x" * 5_000_000
