"""Due timers become commands. The one recovery mechanism: whoever dies, a timer is left."""

from orchestrator.housekeeping.timers import fire, fire_due

__all__ = ["fire", "fire_due"]
