"""Looking for keys that nobody has declared, and for keys that outlive what they belong to."""

import re

from redis.asyncio import Redis
from redis.utils import str_if_bytes

from orchestrator.storage.keys import META_KINDS, PARTITION_KINDS, KeyKind, Lifetime

KINDS = {("meta", kind.name): kind for kind in META_KINDS} | {
    ("part", kind.name): kind for kind in PARTITION_KINDS
}


async def undeclared_keys(client: Redis, prefix: str) -> list[str]:
    """Keys that ``keys.py`` does not declare as they are: kind, type, and whether they expire."""
    keys = await _keys(client, prefix)
    async with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
            pipeline.pttl(key)
        replies = await pipeline.execute()
    found = zip(keys, replies[::2], replies[1::2], strict=True)
    return [key for key, kind, ttl_ms in found if _is_undeclared(key, str_if_bytes(kind), ttl_ms)]


async def left_keys(client: Redis, prefix: str) -> list[str]:
    """Keys that should have gone with their thread, assistant or last member."""
    staying = (Lifetime.INSTALLATION, Lifetime.EXPIRY)
    found = await _keys(client, prefix)
    return [key for key in found if (kind := kind_of(key)) is None or kind.lifetime not in staying]


def kind_of(key: str) -> KeyKind | None:
    """The declared kind of a key."""
    match = re.fullmatch(r"[^:]+:\{(meta|p\d\d+)\}:([a-z-]+)(:.+)?", key)
    if match is None:
        return None
    tag, name, _ = match.groups()
    return KINDS.get(("meta" if tag == "meta" else "part", name))


async def _keys(client: Redis, prefix: str) -> list[str]:
    return [str_if_bytes(key) async for key in client.scan_iter(f"{prefix}:*")]


def _is_undeclared(key: str, found_type: str, ttl_ms: int) -> bool:
    if found_type == "none":
        return False  # it has just expired
    kind, expires = kind_of(key), ttl_ms >= 0
    if kind is None or kind.type != found_type:
        return True
    may_expire = kind.lifetime in (Lifetime.EXPIRY, Lifetime.RETENTION)
    return (expires and not may_expire) or (not expires and kind.lifetime is Lifetime.EXPIRY)
