"""Which of the tools a worker serves."""

from orchestrator.loading import NotLoaded, Tools
from orchestrator.records import Isolation


def for_queue(tools: Tools, queue: str) -> Tools:
    """Those of the tools that are served on this queue. Raises ``NotLoaded`` for none."""
    found = {name: tool for name, tool in tools.items() if tool.spec.queue == queue}
    if not found:
        served = ", ".join(queues(tools))
        raise NotLoaded(f"No tool is on the queue {queue}: these tools are on {served}.")
    isolation(found)
    return found


def isolation(tools: Tools) -> Isolation:
    """How the tools of one queue are run. Raises ``NotLoaded`` where they do not agree."""
    by_kind = {tool.spec.isolation: name for name, tool in tools.items()}
    if len(by_kind) > 1:
        raise NotLoaded(
            f"{by_kind['process']} wants a process for each call and {by_kind['inline']} runs"
            " inline: give them queues of their own."
        )
    return next(iter(by_kind))


def queues(tools: Tools) -> list[str]:
    """The queues of these tools, sorted."""
    return sorted({tool.spec.queue for tool in tools.values()})
