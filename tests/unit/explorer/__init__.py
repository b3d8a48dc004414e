"""Walks every interleaving of a small run: whatever client, engine, workers, clock and crashes do.

A state is a *document* (the run as it is stored) and the *tokens* that say who has what in hand.
The walk stops by itself, because states that differ only in ways that no rule can see are one:
turn generations are "current" or "stale", all is decided at one instant before the deadline or at
the deadline, and late results are checked and then left out.
"""
