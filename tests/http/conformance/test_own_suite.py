"""openai's own tests of its SDK, played against this server instead of their mock."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from fastapi import FastAPI

from api.doorbell import Doorbell
from orchestrator.commands import (
    Cancel,
    CreateRun,
    NewMessage,
    ProposedCall,
    StartTurn,
    Stop,
    TurnResult,
)
from orchestrator.records import Assistant, RunSpec, Thread
from orchestrator.shell import change_run, create_thread
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import RunRef
from tests.http.conformance.conftest import play
from tests.http.conformance.sdks import suite
from tests.http.conftest import serve_app

BETA: Final = "tests/api_resources/beta"
FILES: Final = (f"{BETA}/test_assistants.py", f"{BETA}/test_threads.py", f"{BETA}/threads")
ASKED: Final = "strict and not Async"
"""The answers are checked in full, by the sync client; the others send the same requests."""

TESTS: Final = 116
REFUSALS: Final = {
    "Invalid 'limit': integer below minimum value. Expected a value >= 1, but got 0": 4,
    "only one of 'vector_store_ids' and 'vector_stores' may be given": 4,
    "Missing required parameter: 'tool_outputs[0].tool_call_id'": 6,
    "This server runs function tools only; the run also has code_interpreter": 2,
}
"""Requests of these tests that the published API does not allow either, and foreign tools."""

SPEC: Final = RunSpec(
    assistant_id="assistant_id",
    model="scripted/inline",
    tools=({"type": "function", "function": {"name": "look_up"}},),
)
REF: Final = RunRef("thread_id", "run_id")


@pytest.fixture
async def address(app: FastAPI, doorbell: Doorbell, store: ValkeyStore) -> AsyncIterator[str]:
    """A server without engines that can be filled anew."""

    @app.post("/seed")
    async def seed(is_free: bool) -> None:
        await _seed(store, is_free=is_free)

    async with serve_app(app, on_stop=doorbell.close) as address:
        yield address


async def _seed(store: ValkeyStore, *, is_free: bool) -> None:
    """One of each kind, under the ids that the tests use; the run waits for a call, or is over."""
    await store._client.flushall()
    await store.prepare()
    await store.put_assistant(Assistant(id="assistant_id", created_ms=1, model="m"))
    text = {"type": "text", "text": {"value": "Hi", "annotations": []}}
    said = NewMessage("message_id", "user", (text,))
    run = CreateRun(REF.run_id, SPEC, 600_000, additional_messages=(said,))
    await create_thread(store, Thread(id=REF.thread_id, created_ms=0), run)
    await change_run(store, REF, StartTurn("engine-1", 60_000))
    asked = TurnResult(
        generation=1,
        text=None,
        calls=(ProposedCall("tool_call_id", "look_up", "{}"),),
        stop=Stop.TOOLS,
        usage=None,
        message_id="msg_1",
        message_step_id="step_1",
        calls_step_id="step_id",
    )
    await change_run(store, REF, asked)
    if is_free:
        await change_run(store, REF, Cancel(60_000))


async def test_openais_own_tests_pass_but_for_requests_that_are_refused(
    sdk_cache: Path, address: str, tmp_path: Path
) -> None:
    python, sources = suite(sdk_cache)
    plugins = Path(__file__).parent / "tours"
    report = tmp_path / "report.xml"
    with pytest.raises(AssertionError):  # some of them fail
        await play(
            *("env", f"TEST_API_BASE_URL={address}/v1", f"PYTHONPATH={plugins}"),
            *(str(python), "-m", "pytest", "-o", "addopts=", "-p", "openai_suite"),
            *("-p", "no:cacheprovider", f"--junitxml={report}", "-k", ASKED, *FILES),
            cwd=sources,
        )
    cases = ET.parse(report).findall(".//testcase")  # noqa: S314
    told = [case[0].get("message", "") for case in cases if len(case)]
    reasons = [next((text for text in REFUSALS if text in one), one) for one in told]
    assert (len(cases), Counter(reasons)) == (TESTS, Counter(REFUSALS))
