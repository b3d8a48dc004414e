"""Tools of a module whose import starts a thread that speaks https for ever, as one does that ships
logs or metrics. ``ask_together`` uses the client of that thread.
"""

import os
from contextlib import suppress
from threading import Thread

import httpx2

from orchestrator import tool

SITE = os.environ["FORKS_SITE"]
CLIENT = httpx2.Client(base_url=SITE)
LIMIT_S = 3


def _ship() -> None:
    while True:
        with suppress(httpx2.TransportError), httpx2.Client(base_url=SITE) as new:
            CLIENT.get("/metrics")
            new.get("/logs")


Thread(target=_ship, name="shipping", daemon=True).start()


@tool(side_effects="none", timeout_s=LIMIT_S)
def ask_alone(words: str) -> str:
    """Ask the site, with a client for this call.

    Args:
        words: What to ask for.
    """
    with httpx2.Client(base_url=SITE) as client:
        return client.get(f"/{words}").raise_for_status().text


@tool(side_effects="none", timeout_s=LIMIT_S)
def ask_together(words: str) -> str:
    """Ask the site, with the client that a thread of the worker is using.

    Args:
        words: What to ask for.
    """
    return CLIENT.get(f"/{words}").raise_for_status().text
