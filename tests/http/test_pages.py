"""The pages for people: what they say, that nothing on them is executed, and who may see them."""

import re
from base64 import b64encode
from importlib.resources import files
from urllib.parse import quote

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run
from pydantic import SecretStr

from orchestrator.commands import CallResult, ClaimCall, Outcome
from orchestrator.decisions import KeepTurn
from orchestrator.dispatch import Dispatcher
from orchestrator.records import Price, ToolSpec, Usage
from orchestrator.settings import ApiKey, Settings
from orchestrator.shell import change_run
from orchestrator.store import Presence, RunRef, Store
from orchestrator.turn_record import Compaction
from tests.http.driver import Asked, Driver
from tests.store.samples import change
from tests.unit.test_turn_record import RECORD

UI = "/ops/ui"
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e"


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, model_prices={"scripted/*": Price(prompt=2, completion=9)})


async def read(http: httpx2.AsyncClient, path: str, status: int = 200) -> str:
    """The words of a page, without its markup."""
    html = await source(http, path, status)
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("&#34;", '"').split())


async def source(http: httpx2.AsyncClient, path: str, status: int = 200) -> str:
    response = await http.get(UI + path, follow_redirects=True)
    assert response.status_code == status
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return response.text


# -- the run ---------------------------------------------------------------------------------------


async def test_a_run_is_explained_while_it_waits(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    usage = Usage(prompt_tokens=1_000, completion_tokens=20)
    arguments = '{"room": "hall"}'
    await driver.asks(run, Asked("measure", arguments), workers=("measure",), usage=usage)
    words = await read(http, f"/runs/{run.id}")
    assert 'On the queue tools, for a worker: measure(room="hall"). No live worker' in words
    assert "Clients see in progress Inside requires action" in words
    assert "1,000 + 20 Cost $0.0022" in words
    assert "tools waiting" in words
    assert 'measure(room="hall") asked for' in words
    assert "This page stays up to date." in words


async def test_an_ended_run_is_shown_with_its_error_turns_and_transcript(
    http: httpx2.AsyncClient, store: Store, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",), text="I measure.")
    ref = RunRef(run.thread_id, run.id)
    await change_run(store, ref, ClaimCall(call_id, "w7", 60_000))
    traceback = 'KeyError: 3\n  File "tools.py", line 7, in measure'
    result = CallResult(call_id, 1, Outcome.FAILED, "{}", traceback, full="x" * 9, drift="+ unit")
    await change_run(store, ref, result)
    summaries = (
        Compaction(seq=4, replaced=((0, 3),), latency_ms=80),
        Compaction(replaced=((0, 1),), latency_ms=9, failure="overloaded"),
    )
    dropped = {"last_messages": ((0, 3), (5, 5))}
    failed = RECORD.but(
        failures=("busy",),
        dropped=dropped,
        compactions=summaries,
        server_uses={"web_search": 2},
        without=("temperature",),
    )
    await change(store, ref, KeepTurn(failed))
    await driver.answers(run, "It is wide.")
    words = await read(http, f"/runs/{run.id}")
    assert "The model gave its answer after 2 turns and 1 tool call" in words
    assert "line 7, in measure" in words
    assert "Drift of the output + unit" in words
    assert "0-3, 5 by last_messages" in words
    assert "busy" in words
    assert "a summary of 0-3, in 80 ms no summary: overloaded" in words
    assert "assistant I measure." in words
    assert "assistant It is wide." in words
    assert "stays up to date" not in words
    whole = await http.get(f"{UI}/runs/{run.id}/calls/{call_id}/output")
    assert (whole.text, whole.headers["content-type"]) == ("x" * 9, "text/plain; charset=utf-8")
    request = await read(http, f"/runs/{run.id}/turns/0")
    assert "Left out by last_messages 0-3, 5" in request
    assert "web_search used before 2 Left out of the request temperature" in request
    assert '"model": "gpt-x"' in request


async def test_many_calls_are_drawn_on_demand(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    await driver.asks(run, *(Asked("look_up", f'{{"n": {n}}}') for n in range(25)))
    html = await source(http, f"/runs/{run.id}")
    assert "<summary>5 more</summary>" in html
    assert html.count('href="#call-') == 25


async def test_words_that_are_being_said_are_shown(
    http: httpx2.AsyncClient, store: Store, driver: Driver, run: Run
) -> None:
    await driver.starts(run)
    await driver.speaks(run)
    loaded = await store.load(run.thread_id, run.id)
    assert loaded.aggregate.run
    event = (await store.read_events(RunRef(run.thread_id, run.id)))[-1][1]
    assert await store.say(RunRef(run.thread_id, run.id), 1, [event], "Let me")
    assert "assistant in progress Let me" in await read(http, f"/runs/{run.id}")


async def test_what_strangers_wrote_is_text_everywhere(
    http: httpx2.AsyncClient, client: AsyncOpenAI, store: Store, driver: Driver, thread: Thread
) -> None:
    assistant = await client.beta.assistants.create(
        model="scripted/inline",
        tools=[{"type": "function", "function": {"name": "measure"}}],
        instructions=HOSTILE,
    )
    await client.beta.threads.messages.create(thread.id, role="user", content=HOSTILE)
    run = await client.beta.threads.runs.create(
        thread.id, assistant_id=assistant.id, model=HOSTILE, metadata={HOSTILE[:60]: HOSTILE}
    )
    arguments = f'{{"a": "{HOSTILE}"}}'
    (call_id,) = await driver.asks(
        run, Asked("measure", arguments), workers=("measure",), text=HOSTILE
    )
    ref = RunRef(thread.id, run.id)
    await change_run(store, ref, ClaimCall(call_id, HOSTILE, 60_000))
    result = CallResult(call_id, 1, Outcome.FAILED, HOSTILE, HOSTILE, full=HOSTILE, drift=HOSTILE)
    await change_run(store, ref, result)
    await change(store, ref, KeepTurn(RECORD.but(failures=(HOSTILE,), model=HOSTILE)))
    await driver.answers(run, HOSTILE)
    await store.publish_tools([ToolSpec(name="measure", description=HOSTILE)], 60)
    paths = ("/runs", f"/runs/{run.id}", f"/runs/{run.id}/turns/0", "/queues", "/usage?by=model")
    for path in (*paths, f"/runs?find={quote(HOSTILE)}", f"/{quote(HOSTILE)}"):
        response = await http.get(UI + path)
        assert "<script>alert" not in response.text, path
        assert "<img" not in response.text, path
        assert not re.search("[\x1b\u202e]", response.text), path
    assert (
        (await http.get(f"{UI}/runs/{run.id}/calls/{call_id}/output"))
        .headers["content-security-policy"]
        .startswith("default-src 'none'")
    )


async def test_nothing_is_loaded_from_elsewhere_and_nothing_inline_runs(
    http: httpx2.AsyncClient, run: Run
) -> None:
    response = await http.get(f"{UI}/runs/{run.id}")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["cache-control"] == "no-store"
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]*)"', response.text)
    assert loaded
    for address in loaded:
        assert address.startswith(f"{UI}/static/")
        assert (await http.get(address)).status_code == 200
    assert " style=" not in response.text


async def test_without_scripts_the_page_of_an_active_run_refreshes_itself_unless_told_not_to(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    refresh = '<noscript><meta http-equiv="refresh"'
    assert refresh in await source(http, f"/runs/{run.id}")
    still = await source(http, f"/runs/{run.id}?live=off")
    assert refresh not in still
    assert "Keep it up to date" in still
    await driver.answers(run, "Done")
    assert refresh not in await source(http, f"/runs/{run.id}")


# -- the others ------------------------------------------------------------------------------------


async def test_runs_are_listed_and_filtered(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    other = await client.beta.threads.create_and_run(assistant_id=run.assistant_id)
    await driver.answers(other, "Done")
    every = await read(http, "")
    assert run.id in every
    assert other.id in every
    assert "queued 1" in every
    completed = await read(http, "/runs?status=completed")
    assert other.id in completed
    assert run.id not in completed
    assert "No runs that are failed." in await read(http, "/runs?status=failed")
    of_thread = await read(http, f"/runs?find={other.thread_id}")
    assert other.id in of_thread
    assert run.id not in of_thread
    assert "1 turn, 0 tokens, cost unknown 1 of unknown tokens" in of_thread.replace(" ,", "")
    assert f"queued {run.id}" in await read(http, f"/runs?find=+{run.id}+")


async def test_a_long_list_is_read_on(
    http: httpx2.AsyncClient, client: AsyncOpenAI, assistant: Assistant, driver: Driver
) -> None:
    runs = [
        await driver.creates((await client.beta.threads.create()).id, assistant.id, 60_000)
        for _ in range(51)
    ]
    first = await source(http, "/runs")
    older = re.search(r'rel="next" href="([^"]*)"', first)
    assert older
    assert runs[0].run_id not in first
    rest = await source(http, "/runs" + older[1].replace("&amp;", "&"))
    assert runs[0].run_id in rest
    assert runs[1].run_id not in rest
    assert "Newest" in rest


async def test_queues_without_a_worker_and_tools_that_nobody_serves_are_pointed_out(
    http: httpx2.AsyncClient, settings: Settings, store: Store, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("measure"), workers=("measure",))
    await Dispatcher(store, settings).deliver(await store.take_parcels(10, 60_000))
    await store.publish_tools([ToolSpec(name="measure", side_effects="none")], 60)
    words = await read(http, "/queues")
    assert "Calls wait on the queue tools , and no live worker serves it." in words
    assert "No engine is alive" in words
    assert "measure tools no live worker process 60.0 s none" in words
    await store.beat(Presence("worker", "w", {"queue": "tools"}), 60_000)
    await store.beat(Presence("engine", "e7", {"turns": "2", "host": "vm"}), 60_000)
    words = await read(http, "/queues")
    assert "no live worker" not in words
    assert "e7 vm 2" in words
    await store.leave("worker", "w")
    await store.leave("engine", "e7")


async def test_usage_says_what_is_not_known(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    assert "No model has answered in this time." in await read(http, "/usage")
    await driver.answers(run, "Done", usage=Usage(prompt_tokens=1_000_000))
    other = await client.beta.threads.create_and_run(assistant_id=run.assistant_id)
    await driver.answers(other, "Done")
    words = await read(http, "/usage?by=model")
    assert "scripted/inline 2 1,000,000 0 0 1,000,000 $2.0000 and 1 turn of unknown cost" in words
    assert "does not know" in await read(http, "/usage?by=colour", 400)
    assert "does not know" in await read(http, "/runs?status=lost", 400)
    assert "must be at most" in await read(http, "/usage?from=2020-01-01", 400)


async def test_errors_are_pages_as_well(http: httpx2.AsyncClient, run: Run) -> None:
    assert "No run found" in await read(http, "/runs/run_x", 404)
    assert "No turn found" in await read(http, f"/runs/{run.id}/turns/7", 404)
    assert "No thread found" in await read(http, "/runs?find=thread_x", 404)
    assert "There is no page /ops/ui/nowhere" in await read(http, "/nowhere", 404)
    assert (await http.get(f"{UI}/static/../routes.py")).status_code == 404
    assert (await http.get(f"{UI}/runs/{run.id}/calls/call_x/output")).status_code == 404


async def test_browsers_are_led_to_the_pages_and_programs_are_not(
    http: httpx2.AsyncClient,
) -> None:
    led = await http.get("/", headers={"accept": "text/html,*/*"}, follow_redirects=True)
    assert (led.url.path, led.status_code) == (f"{UI}/runs", 200)
    assert (await http.get("/")).json()["error"]["code"] == "unknown_url"


def test_the_pages_are_part_of_the_package() -> None:
    assert {"style.css", "live.js"} <= {
        one.name for one in files("api.pages").joinpath("static").iterdir()
    }


class TestWithKeys:
    """A browser asks for a name and a password; the password is a key."""

    @pytest.fixture
    def settings(self, redis_url: SecretStr) -> Settings:
        key = ApiKey(secret=SecretStr("schlüssel: 1"), tenant="library")
        return Settings(redis_url=redis_url, api_keys=(key,))

    async def test_the_password_is_a_key(self, http: httpx2.AsyncClient) -> None:
        for path in (UI, f"{UI}/runs", f"{UI}/static/style.css"):
            asked = await http.get(path)
            assert asked.status_code == 401
            assert asked.headers["www-authenticate"].startswith('Basic realm="Runstate"')
        assert (await self.log_in(http, "any:schlüssel: 1", f"{UI}/runs")) == 200
        for wrong in ("any:schlüssel", "schlüssel: 1", ":"):
            assert (await self.log_in(http, wrong, f"{UI}/runs")) == 401

    async def test_a_password_opens_the_pages_only(self, http: httpx2.AsyncClient) -> None:
        for path in ("/v1/assistants", "/ops/runs", "/metrics"):
            assert (await self.log_in(http, "any:schlüssel: 1", path)) == 401

    async def log_in(self, http: httpx2.AsyncClient, credentials: str, path: str) -> int:
        encoded = b64encode(credentials.encode()).decode()
        response = await http.get(path, headers={"authorization": f"Basic {encoded}"})
        return response.status_code

    async def test_what_is_no_password_is_refused(self, http: httpx2.AsyncClient) -> None:
        for value in ("Basic ÿ", "Basic !", "Basic"):
            headers = {b"authorization": value.encode("latin-1")}
            assert (await http.get(f"{UI}/runs", headers=headers)).status_code == 401
