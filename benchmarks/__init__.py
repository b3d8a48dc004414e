"""What Runstate costs, and how much it stands: ``python -m benchmarks.NAME``.

Costs: ``pipelining``, ``runs``, ``streams``, ``inline``. Faults at full size, which the suite meets
in small; they exit with 1 when a promise is broken: ``soak`` (killed and stopped workers),
``rolling`` (restarts), ``timers`` (all due at once), ``fan_in`` (answers that come together),
``cancels`` (at any moment), ``forks`` (beside a busy thread), ``crosstalk`` (shared connections).
"""
