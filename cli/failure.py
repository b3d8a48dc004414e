"""What a command says when it cannot go on."""


class Failure(Exception):
    """One sentence for the person at the terminal. ``main`` prints it and ends with ``code``."""

    code = 1


class Refusal(Failure):
    """What the server says of a request that is wrong; sending it again will not help."""
