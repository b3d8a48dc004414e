"""Processes that execute tool calls: RQ workers, the function that they run, and the loader."""
