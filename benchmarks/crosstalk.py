"""Whether replies reach those that asked: ``python -m benchmarks.crosstalk [RUNS]``, 200 of them
with ten calls each unless told otherwise.

Four apis, an engine and four forking workers around a store and queues that speak TLS. The module
of the tools has used its clients (Redis and HTTP over TLS, SQLite) before the first fork. Each call
and each run has words of its own, which must come back from every server and from whichever api is
asked; the exit code is 1 if others do, or none.
"""

import asyncio
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from benchmarks.hosts import ENDED, Hosts, running_hosts
from benchmarks.tls import make_certificate, tls_site, tls_store, why_not

APIS: Final = 4
WORKERS: Final = 4
RUNS: Final = 200
CALLS: Final = 10
AT_ONCE: Final = 16
TOOLS: Final = "benchmarks.shared_clients"
SERVERS: Final = ("store", "site", "database")
WAIT: Final = {"Prefer": "wait=10"}


@dataclass(slots=True)
class Toll:
    """``right``: how many answers had the right words; ``wrong``: the others, and what was due."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    took_s: float = 0.0

    def compare(self, where: str, due: object, found: object) -> None:
        """Count an answer."""
        if due == found:
            self.right += 1
        else:
            self.wrong.append(f"{where}: {found!r} where {due!r} was due")


async def crosstalk(home: Path, runs: int) -> Toll:
    """Play the runs on processes of their own."""
    certificate = make_certificate(home)
    toll = Toll()
    with tls_store(home, certificate) as store, tls_site(certificate) as site:
        variables = {
            "RUNSTATE_REDIS_URL": store,
            "CROSSTALK_STORE": store,
            "CROSSTALK_SITE": site,
            "CROSSTALK_DATABASE": str(home / "database"),
            "SSL_CERT_FILE": str(certificate),
        }
        async with running_hosts(home, TOOLS, variables, apis=APIS, workers=WORKERS) as hosts:
            assistant = await hosts.assistant("ask_all")
            began = time.monotonic()
            turns = iter(range(runs))
            lanes = (_lane(hosts, assistant, turns, toll) for _ in range(AT_ONCE))
            await asyncio.gather(*lanes)
            toll.took_s = time.monotonic() - began
    return toll


async def _lane(hosts: Hosts, assistant: str, turns: Iterator[int], toll: Toll) -> None:
    """One run after another; each request of a run goes to another api than the one before."""
    for number in turns:
        apis = tuple(hosts.apis[(number + step) % len(hosts.apis)] for step in range(4))
        await _play(apis, assistant, toll)


async def _play(apis: tuple[httpx2.AsyncClient, ...], assistant: str, toll: Toll) -> None:
    nonces = [secrets.token_hex(8) for _ in range(CALLS)]
    calls = [{"name": "ask_all", "arguments": {"nonce": nonce}} for nonce in nonces]
    script = json.dumps({"turns": [{"tool_calls": calls}, {"text": nonces[0]}]})
    thread = {"messages": [{"role": "user", "content": script}]}
    body = {"assistant_id": assistant, "thread": thread, "metadata": {"nonce": nonces[0]}}
    run: dict[str, Any] = (await apis[0].post("/v1/threads/runs", json=body)).json()
    path = f"/v1/threads/{run['thread_id']}"
    while run["status"] not in ENDED:
        toll.compare("run", nonces[0], run["metadata"].get("nonce"))
        run = (await apis[1].get(f"{path}/runs/{run['id']}", headers=WAIT)).json()
    toll.compare("status", "completed", run["status"])
    steps = (await apis[2].get(f"{path}/runs/{run['id']}/steps?order=asc")).json()["data"]
    made = steps[0]["step_details"]["tool_calls"]
    for nonce, call in zip(nonces, made, strict=True):
        _compare(nonce, call["function"], toll)
    messages = (await apis[3].get(f"{path}/messages?order=asc")).json()["data"]
    said = [message["content"][0]["text"]["value"] for message in messages]
    toll.compare("messages", [script, nonces[0]], said)


def _compare(nonce: str, function: dict[str, Any], toll: Toll) -> None:
    toll.compare("call", {"nonce": nonce}, json.loads(function["arguments"]))
    answers = json.loads(function["output"] or "{}")
    if "error" in answers:
        toll.wrong.append(f"call {nonce}: {answers['error']}")
        return
    for server in SERVERS:
        toll.compare(server, nonce, answers.get(server))


def main() -> None:
    """Play them and print the toll."""
    if reason := why_not():
        sys.exit(f"There can be no servers with TLS: {reason}.")
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as folder:
        toll = asyncio.run(crosstalk(Path(folder), runs))
    print(
        f"{runs * CALLS} calls of {runs} runs took {toll.took_s:.0f} s: {toll.right} right answers"
    )
    for line in toll.wrong[:20]:
        print(line)
    if toll.wrong:
        sys.exit(f"{len(toll.wrong)} answers were wrong.")


if __name__ == "__main__":
    main()
