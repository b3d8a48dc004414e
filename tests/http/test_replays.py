"""A stored run is played again: on a copy, with the recorded outputs, and no tool is executed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run
from pydantic import SecretStr

from cli.client import Client
from cli.failure import Failure
from cli.program import EXAMPLE_TOOLS
from cli.replay import Changes, replay
from orchestrator.records import ToolSpec
from orchestrator.settings import ApiKey, Settings
from orchestrator.store import Store
from tests.engine.rig import EngineRoom
from tests.http.driver import Driver
from tests.waiting import until

Json = dict[str, Any]
Turns = Sequence[Mapping[str, Any]]

LOOK_UP = {"name": "look_up", "arguments": {"q": 1, "r": 2}}
THREE_TURNS: Turns = [
    {"text": "Let me see.", "tool_calls": [LOOK_UP, LOOK_UP]},
    {"tool_calls": [{"name": "measure"}, {"name": "missing"}]},
    {"text": "It is {{ calls[-4] }}, {{ calls[-3] }} and {{ outputs.measure }}."},
]

AS_IT_WAS = Changes()


@pytest.fixture
def settings(redis_url: SecretStr, tmp_path: Path) -> Settings:
    keys = (
        ApiKey(secret=SecretStr("key-of-shop"), tenant="shop"),
        ApiKey(secret=SecretStr("key-of-the-operator")),
    )
    return Settings(redis_url=redis_url, scripts_dir=tmp_path, api_keys=keys)


@pytest.fixture
def client(client: AsyncOpenAI) -> AsyncOpenAI:
    return client.with_options(api_key="key-of-shop")


@pytest.fixture
def http(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    http.headers["authorization"] = "Bearer key-of-the-operator"
    return http


class Stage:
    """Records runs, and plays them again as the command does."""

    def __init__(
        self, client: AsyncOpenAI, http: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._beta = client.beta
        self._http = http
        self._capsys = capsys

    async def begin(self, thread: Thread, assistant: Assistant, turns: Turns) -> Run:
        """A run of a model that answers with these turns, once it waits for somebody."""
        script = json.dumps({"turns": turns})
        await self._beta.threads.messages.create(thread.id, role="user", content=script)
        run = await self._beta.threads.runs.create(thread.id, assistant_id=assistant.id)

        async def waits() -> bool:
            return (await self.get(run))["required_action"] is not None

        assert await until(waits)
        return run

    async def answer(self, run: Run, *outputs: str) -> Run:
        """The run at its next rest after these outputs, in the order of its calls."""
        runs = self._beta.threads.runs
        asked = await runs.poll(run.id, thread_id=run.thread_id)
        assert asked.required_action
        calls = asked.required_action.submit_tool_outputs.tool_calls
        return await runs.submit_tool_outputs_and_poll(
            run_id=run.id,
            thread_id=run.thread_id,
            tool_outputs=[
                {"tool_call_id": call.id, "output": output}
                for call, output in zip(calls, outputs, strict=True)
            ],
        )

    async def record(self, thread: Thread, assistant: Assistant) -> Run:
        """A run whose client answered three calls in two rounds."""
        run = await self.begin(thread, assistant, THREE_TURNS)
        await self.answer(run, "one", "two")
        return await self.answer(run, "three")

    async def replay(self, run: Run, changes: Changes = AS_IT_WAS) -> tuple[int, Json]:
        """The exit code of the command, and what it prints. The replay is kept."""
        self._capsys.readouterr()
        code = 0
        try:
            client = Client(str(self._http.base_url), "key-of-the-operator")
            await replay(client, run.id, changes, is_json=True, keep=True)
        except SystemExit as end:
            code = int(str(end.code))
        out = self._capsys.readouterr().out  # the logs of the api, then the JSON
        return code, json.loads(out[out.rindex("\n{\n") :])

    async def get(self, run: Run, *more: str) -> Json:
        """The run as clients are shown it, or something of it."""
        path = "/".join(("/v1/threads", run.thread_id, "runs", run.id, *more))
        found: Json = (await self._http.get(path)).json()
        return found

    async def copy(self, printed: Json) -> Run:
        """The run that was made for a replay."""
        report = (await self._http.get(f"/ops/runs/{printed['replay_id']}")).json()
        return Run.model_validate(report["run"])

    async def requests(self, run: Run) -> list[Json]:
        """What the model was sent in each turn, without the ids of calls."""
        turns = (await self.get(run, "turns"))["data"]
        found = [(await self.get(run, "turns", str(turn["turn"])))["request"] for turn in turns]
        for message in (message for request in found for message in request["messages"]):
            message.pop("tool_call_id", None)
            for call in message.get("tool_calls", ()):
                del call["id"]
        return found


@pytest.fixture
def stage(
    client: AsyncOpenAI,
    http: httpx2.AsyncClient,
    engines: EngineRoom,
    capsys: pytest.CaptureFixture[str],
) -> Stage:
    return Stage(client, http, capsys)


async def test_the_same_model_does_the_same_again_and_is_shown_the_same(
    stage: Stage, thread: Thread, assistant: Assistant, client: AsyncOpenAI
) -> None:
    await stage.record(thread, assistant)
    run = await stage.record(thread, assistant)
    later = await client.beta.threads.messages.create(thread.id, role="user", content="Bye.")

    code, printed = await stage.replay(run)
    assert (code, printed["same_turns"], printed["difference"]) == (0, 3, None)
    copy = await stage.copy(printed)
    original = await stage.requests(run)
    assert len(original) == 3
    assert await stage.requests(copy) == original
    operator = client.with_options(api_key="key-of-the-operator").beta.threads
    kept = await operator.retrieve(copy.thread_id)
    assert kept.metadata == {"replay_of": run.id}
    texts = [message.content async for message in operator.messages.list(kept.id)]
    assert later.content not in texts


async def test_a_replay_is_charged_to_whoever_asks_for_it(
    stage: Stage, thread: Thread, assistant: Assistant, http: httpx2.AsyncClient
) -> None:
    await stage.replay(await stage.record(thread, assistant))
    lines = (await http.get("/ops/runs")).json()["data"]
    assert [line["tenant"] for line in lines] == ["default", "shop"]


async def test_a_replay_leaves_nothing_behind(
    stage: Stage, thread: Thread, assistant: Assistant, http: httpx2.AsyncClient
) -> None:
    run = await stage.record(thread, assistant)
    await replay(
        Client(str(http.base_url), "key-of-shop"), run.id, AS_IT_WAS, is_json=False, keep=False
    )
    threads = (await http.get("/v1/threads")).json()["data"]
    assert [one["id"] for one in threads] == [thread.id]


async def test_no_worker_executes_anything_and_edited_arguments_stay_edited(
    stage: Stage, thread: Thread, assistant: Assistant, store: Store, driver: Driver
) -> None:
    await store.publish_tools([ToolSpec(name="measure", approval="required")], 60)
    asked = {"name": "measure", "arguments": {"a": 1}}
    run = await stage.begin(thread, assistant, [{"tool_calls": [asked]}, {"text": "Done."}])
    (call,) = (await stage.get(run, "tool_calls"))["data"]
    approve = await stage._http.post(
        f"/v1/threads/{thread.id}/runs/{run.id}/tool_calls/{call['id']}/approve",
        json={"arguments": {"a": 2}},
    )
    assert approve.status_code == 200
    await driver.works(run, call["id"], "1 m")

    async def is_completed() -> bool:
        return bool((await stage.get(run))["status"] == "completed")

    assert await until(is_completed)
    code, printed = await stage.replay(run)
    assert code == 0
    copy = await stage.copy(printed)
    (again,) = (await stage.get(copy, "tool_calls"))["data"]
    assert (again["executor"], again["attempts"], again["output"]) == ("client", 0, "1 m")
    original = await stage.requests(run)
    assert '{"a":2}' in str(original[1])
    assert await stage.requests(copy) == original


async def test_another_model_is_followed_to_the_first_difference(
    stage: Stage, thread: Thread, assistant: Assistant
) -> None:
    run = await stage.record(thread, assistant)
    code, printed = await stage.replay(run, Changes(model="scripted/echo"))
    assert (code, printed["model"], printed["same_turns"]) == (1, "scripted/echo", 0)
    assert printed["difference"]["kind"] == "end"
    assert len(printed["difference"]["recorded"]["calls"]) == 2
    assert printed["difference"]["replayed"]["status"] == "completed"


async def test_a_call_that_was_not_recorded_ends_the_replay(
    stage: Stage, thread: Thread, assistant: Assistant, tmp_path: Path
) -> None:
    run = await stage.record(thread, assistant)
    other = {"name": "measure", "arguments": {"deep": True}}
    script = {"turns": [THREE_TURNS[0], {"tool_calls": [other]}]}
    (tmp_path / "other.yaml").write_text(json.dumps(script))
    code, printed = await stage.replay(run, Changes(model="scripted/other"))
    difference = printed["difference"]
    assert (code, difference["turn"], difference["kind"]) == (1, 1, "calls")
    assert difference["replayed"] == {"calls": [{"name": "measure", "arguments": '{"deep":true}'}]}
    assert (await stage.copy(printed)).status == "cancelled"


async def test_a_run_that_ended_before_its_calls_were_answered_is_followed_to_there(
    stage: Stage, thread: Thread, assistant: Assistant, client: AsyncOpenAI
) -> None:
    run = await stage.begin(thread, assistant, THREE_TURNS)
    await stage.answer(run, "one", "two")
    await client.beta.threads.runs.cancel(run.id, thread_id=thread.id)
    code, printed = await stage.replay(run)
    assert (code, printed["same_turns"]) == (0, 2)


async def test_other_instructions_reach_the_model(
    stage: Stage, thread: Thread, assistant: Assistant, tmp_path: Path
) -> None:
    run = await stage.record(thread, assistant)
    (tmp_path / "prompt.txt").write_text("Be brief.")
    _, printed = await stage.replay(run, Changes(instructions=tmp_path / "prompt.txt"))
    (first, *_) = await stage.requests(await stage.copy(printed))
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    with pytest.raises(Failure, match="no_file cannot be read"):
        await stage.replay(run, Changes(instructions=tmp_path / "no_file"))


async def test_tools_are_shown_as_a_module_has_them_now(
    stage: Stage, thread: Thread, assistant: Assistant, tmp_path: Path
) -> None:
    run = await stage.record(thread, assistant)
    newer = (
        "from orchestrator import tool\n\n@tool\ndef measure(deep: bool) -> str:\n    '''New.'''\n"
    )
    (tmp_path / "newer.py").write_text(newer)
    code, printed = await stage.replay(run, Changes(tools=str(tmp_path / "newer.py")))
    assert code == 0
    (first, *_) = await stage.requests(await stage.copy(printed))
    by_name = {tool["function"]["name"]: tool["function"] for tool in first["tools"]}
    assert "description" not in by_name["look_up"]
    assert by_name["measure"]["description"] == "New."
    assert by_name["measure"]["parameters"]["required"] == ["deep"]
    with pytest.raises(Failure, match="has none of the run's tools: look_up, measure"):
        await stage.replay(run, Changes(tools=EXAMPLE_TOOLS))


async def test_a_run_that_goes_on_cannot_be_replayed(
    stage: Stage, thread: Thread, assistant: Assistant
) -> None:
    run = await stage.begin(thread, assistant, THREE_TURNS)
    with pytest.raises(Failure, match="cannot be replayed: it has not ended"):
        await stage.replay(run)


async def test_a_run_whose_past_was_deleted_cannot_be_replayed(
    stage: Stage, thread: Thread, assistant: Assistant, client: AsyncOpenAI
) -> None:
    run = await stage.record(thread, assistant)
    messages = await client.beta.threads.messages.list(thread.id, order="asc")
    await client.beta.threads.messages.delete(messages.data[0].id, thread_id=thread.id)
    with pytest.raises(Failure, match="has been deleted"):
        await stage.replay(run)


async def test_foreign_tools_are_refused_in_a_replay_too(
    stage: Stage, thread: Thread, assistant: Assistant, http: httpx2.AsyncClient
) -> None:
    run = await stage.record(thread, assistant)
    path = f"/v1/threads/{thread.id}/runs/{run.id}/replay"
    refused = await http.post(path, json={"tools": [{"type": "file_search"}]})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "unsupported_tool"


async def test_a_client_may_take_all_calls_of_a_run(
    stage: Stage, assistant: Assistant, http: httpx2.AsyncClient, store: Store
) -> None:
    await store.publish_tools([ToolSpec(name="measure")], 60)
    script = json.dumps({"turns": [{"tool_calls": [{"name": "measure"}]}]})
    thread = {"messages": [{"role": "user", "content": script}]}
    body = {"assistant_id": assistant.id, "executor": "client", "thread": thread}
    run = Run.model_validate((await http.post("/v1/threads/runs", json=body)).json())

    async def asks() -> bool:
        return (await stage.get(run))["required_action"] is not None

    assert await until(asks)
    wrong = await http.post("/v1/threads/runs", json=body | {"executor": "nobody"})
    assert wrong.status_code == 400
