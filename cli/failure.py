"""What a command says when it cannot go on."""


class Failure(Exception):
    """One sentence for the person at the terminal. ``main`` prints it and ends with code 1."""
