"""Pages for people: runs and why they are where they are, queues and workers, usage.

Rendered here, readable without scripts, and they change nothing. Whatever models, tools and clients
wrote is text on them and never markup.
"""
