"""The events of Anthropic's Messages API, as a server sends them."""

import json
from typing import Any

COUNTS = {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def start(**counts: int) -> bytes:
    return event("message_start", message={"usage": {"output_tokens": 1, **COUNTS, **counts}})


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    return b"".join(
        [
            event("content_block_start", index=index, content_block=content),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        ]
    )


def words(index: int, *texts: str) -> bytes:
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def stop(reason: str, output_tokens: int = 9, details: Any = None) -> bytes:
    told = event(
        "message_delta",
        delta={"stop_reason": reason, "stop_details": details},
        usage={"output_tokens": output_tokens},
    )
    return told + event("message_stop")


def tool_use(index: int, call_id: str, name: str, *pieces: str) -> bytes:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    content = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(index, content, *deltas)
