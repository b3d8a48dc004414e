"""What a command says when it cannot go on."""

import os


class Failure(Exception):
    """One sentence for the person at the terminal. ``main`` prints it and ends with ``code``."""

    code = 1


class Hopeless(Failure):
    """What is configured wrongly: starting the command again will not help."""

    code = os.EX_CONFIG


class Refusal(Failure):
    """What the server says of a request that is wrong; sending it again will not help."""
