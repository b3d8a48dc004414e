"""From the outbox to the RQ queues, and what is seen of these queues."""

from orchestrator.dispatch.dispatcher import Dispatcher

__all__ = ["Dispatcher"]
