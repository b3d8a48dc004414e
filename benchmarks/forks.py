"""Forks of a worker with a busy thread: ``python -m benchmarks.forks [--forks N]``, 10,000 unless
told otherwise.

The module of the tools speaks https in a thread of the worker all the time, and so do the calls. A
fork may meet that thread while it holds a lock, which nobody will release in the child. Counts what
hung for that; the exit code is 1 if a call outlived its time limit, had words of another one, or
kept its run from ending.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from benchmarks.hosts import ENDED, Hosts, running_hosts
from benchmarks.tls import make_certificate, tls_site, tls_store, why_not

FORKS: Final = 10_000
CALLS: Final = 20
WORKERS: Final = 2
AT_ONCE: Final = 4
TOOLS: Final = ("ask_alone", "ask_together")
LONGEST_S: Final = 10.0
"""Of a call: its time limit (3 s), its clean-up (2 s), its worker's margin (3 s), and some more."""

WAIT: Final = {"Prefer": "wait=10"}


@dataclass(slots=True)
class Toll:
    """``ended`` counts ``run completed``, ``ask_alone succeeded`` and so on. ``unclaimed``: the
    children that were ended since they hung before they had their call.
    """

    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    unclaimed: int = 0
    took_s: float = 0.0

    def is_bearable(self, runs: int) -> bool:
        """Whether every run went on, and no call longer than it might."""
        is_over = self.ended["run completed"] == runs and self.longest_s < LONGEST_S
        return is_over and not self.wrong


async def forks(home: Path, runs: int) -> Toll:
    """Play so many runs of ``CALLS`` calls on processes of their own."""
    certificate = make_certificate(home)
    toll = Toll()
    with tls_store(home, certificate) as store, tls_site(certificate) as site:
        variables = {
            "RUNSTATE_REDIS_URL": store,
            "FORKS_SITE": site,
            "SSL_CERT_FILE": str(certificate),
        }
        async with running_hosts(
            home, "benchmarks.busy_module", variables, apis=1, workers=WORKERS
        ) as hosts:
            assistant = await hosts.assistant(*TOOLS)
            began = time.monotonic()
            turns = iter(range(runs))
            lanes = (_lane(hosts, assistant, turns, toll) for _ in range(AT_ONCE))
            await asyncio.gather(*lanes)
            toll.took_s = time.monotonic() - began
        said = hosts.log.read_text()
        toll.unclaimed = said.count("call.stopped")
    return toll


async def _lane(hosts: Hosts, assistant: str, turns: Iterator[int], toll: Toll) -> None:
    for number in turns:
        await _play(hosts.apis[0], assistant, number, toll)


async def _play(api: httpx2.AsyncClient, assistant: str, number: int, toll: Toll) -> None:
    """One run to its end."""
    words = [f"{number}-{place}" for place in range(CALLS)]
    calls = [
        {"name": TOOLS[place % len(TOOLS)], "arguments": {"words": one}}
        for place, one in enumerate(words)
    ]
    script = json.dumps({"turns": [{"tool_calls": calls}, {"text": "Done."}]})
    thread = {"messages": [{"role": "user", "content": script}]}
    body = {"assistant_id": assistant, "thread": thread}
    run: dict[str, Any] = (await api.post("/v1/threads/runs", json=body)).json()
    path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
    while run["status"] not in ENDED:
        run = (await api.get(path, headers=WAIT)).json()
    toll.ended[f"run {run['status']}"] += 1
    ledger = (await api.get(f"/ops/runs/{run['id']}")).json()["calls"]
    for call in ledger:
        toll.ended[f"{call['name']} {call['state']}"] += 1
        took_s = (call["finished_ms"] - (call["started_ms"] or call["finished_ms"])) / 1000
        toll.longest_s = max(toll.longest_s, took_s)
    steps = (await api.get(f"{path}/steps?order=asc")).json()["data"]
    for due, call in zip(words, steps[0]["step_details"]["tool_calls"], strict=True):
        output = call["function"]["output"]
        if output != due and '"type":"timeout"' not in output.replace(" ", ""):
            toll.wrong.append(f"{output} where {due} was due")


def main() -> None:
    """Play them and print the toll."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forks")
    parser.add_argument("--forks", type=int, default=FORKS)
    runs = parser.parse_args().forks // CALLS
    if reason := why_not():
        sys.exit(f"There can be no servers with TLS: {reason}.")
    with tempfile.TemporaryDirectory() as folder:
        toll = asyncio.run(forks(Path(folder), runs))
    print(f"{runs * CALLS} forks took {toll.took_s:.0f} s, the longest call {toll.longest_s:.1f} s")
    print(f"ended: {dict(toll.ended)}; hung before they had their call: {toll.unclaimed}")
    for line in toll.wrong[:20]:
        print(line)
    if not toll.is_bearable(runs):
        sys.exit("A promise was broken.")


if __name__ == "__main__":
    main()
