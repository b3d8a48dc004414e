"""The tool that the benchmark's runs ask for: no work of its own, so that only ours is measured."""

from orchestrator import tool


@tool(side_effects="none")
def add(left: int, right: int) -> int:
    """Add two whole numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right
