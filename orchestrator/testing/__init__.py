"""A pytest plugin to test tools with whole runs: docs/testing.md shows it at work.

It is outside of all rooms: it plays engine and worker in one process, on their own code.
"""

from orchestrator.testing.fault import Fault

__all__ = ["Fault"]
