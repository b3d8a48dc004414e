"""Tools as many are written: their clients are made, and used, when the module is imported."""

import os
import sqlite3

import httpx2
from redis import Redis

from orchestrator import tool

STORE = Redis.from_url(os.environ["CROSSTALK_STORE"], decode_responses=True)
SITE = httpx2.Client(base_url=os.environ["CROSSTALK_SITE"])
DATABASE = sqlite3.connect(os.environ["CROSSTALK_DATABASE"], timeout=60, isolation_level=None)

STORE.ping()
SITE.get("/opened").raise_for_status()
DATABASE.execute("CREATE TABLE IF NOT EXISTS asked (nonce TEXT PRIMARY KEY)")


@tool(side_effects="once")
def ask_all(nonce: str) -> dict[str, str]:
    """Ask three servers for the same words.

    Args:
        nonce: The words.
    """
    written = DATABASE.execute("INSERT INTO asked VALUES (?) RETURNING nonce", [nonce])
    return {
        "store": STORE.execute_command("ECHO", nonce),
        "site": SITE.get(f"/{nonce}").raise_for_status().text,
        "database": written.fetchone()[0],
    }
