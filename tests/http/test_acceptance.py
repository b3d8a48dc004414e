"""What is accepted in which status: the whole matrix."""

from dataclasses import dataclass

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.commands import Stop
from orchestrator.states import FINAL, RunStatus
from tests.http.driver import Asked, Driver

ACTIVE = sorted(set(RunStatus) - FINAL)


@dataclass(frozen=True)
class Case:
    """A run in a status, with everything that may be done to it."""

    client: AsyncOpenAI
    run: Run
    call_id: str

    async def submit(self) -> Run:
        return await self.client.beta.threads.runs.submit_tool_outputs(
            self.run.id,
            thread_id=self.run.thread_id,
            tool_outputs=[{"tool_call_id": self.call_id, "output": "42"}],
        )

    async def cancel(self) -> Run:
        return await self.client.beta.threads.runs.cancel(self.run.id, thread_id=self.run.thread_id)

    async def add_message(self) -> None:
        await self.client.beta.threads.messages.create(
            self.run.thread_id, role="user", content="More"
        )

    async def run_again(self) -> Run:
        return await self.client.beta.threads.runs.create(
            self.run.thread_id, assistant_id=self.run.assistant_id
        )

    async def read(self) -> Run:
        return await self.client.beta.threads.runs.retrieve(
            self.run.id, thread_id=self.run.thread_id
        )


@pytest.fixture(params=list(RunStatus))
async def status(request: pytest.FixtureRequest) -> RunStatus:
    return RunStatus(request.param)


@pytest.fixture
async def case(
    client: AsyncOpenAI,
    driver: Driver,
    assistant: Assistant,
    thread: Thread,
    status: RunStatus,
) -> Case:
    """A run that has come to the status by the way that runs come there."""
    runs = client.beta.threads.runs
    if status is RunStatus.EXPIRED:
        ref = await driver.creates(thread.id, assistant.id, ttl_ms=1)
        run = await runs.retrieve(ref.run_id, thread_id=thread.id)
    else:
        run = await runs.create(thread.id, assistant_id=assistant.id)
    call_id = "call_none"
    match status:
        case RunStatus.QUEUED | RunStatus.EXPIRED:
            pass
        case RunStatus.IN_PROGRESS:
            await driver.starts(run)
        case RunStatus.REQUIRES_ACTION:
            (call_id,) = await driver.asks(run, Asked("look_up"))
        case RunStatus.CANCELLING:
            await driver.starts(run)
            await driver.cancels(run)
        case RunStatus.CANCELLED:
            await driver.cancels(run)
        case RunStatus.FAILED:
            await driver.fails(run)
        case RunStatus.COMPLETED:
            await driver.answers(run, "Done")
        case RunStatus.INCOMPLETE:
            await driver.answers(run, "Do", stop=Stop.LENGTH)
    case = Case(client, run, call_id)
    assert (await case.read()).status == status
    return case


def message_of(error: pytest.ExceptionInfo[BadRequestError]) -> str:
    body = error.value.body
    assert isinstance(body, dict)
    assert (body["type"], body["param"], body["code"]) == ("invalid_request_error", None, None)
    return str(body["message"])


async def test_outputs_are_taken_only_while_the_client_is_waited_for(
    case: Case, status: RunStatus
) -> None:
    if status is RunStatus.REQUIRES_ACTION:
        assert (await case.submit()).status == "queued"
        return
    with pytest.raises(BadRequestError) as error:
        await case.submit()
    assert message_of(error) == f'Runs in status "{status}" do not accept tool outputs.'


async def test_a_run_can_be_cancelled_once_and_until_it_ends(case: Case, status: RunStatus) -> None:
    if status in {RunStatus.QUEUED, RunStatus.REQUIRES_ACTION}:
        assert (await case.cancel()).status == "cancelled"
    elif status is RunStatus.IN_PROGRESS:
        assert (await case.cancel()).status == "cancelling"
    else:
        with pytest.raises(BadRequestError) as error:
            await case.cancel()
        assert message_of(error) == f"Cannot cancel run with status '{status}'."


async def test_a_message_is_refused_while_the_run_is_active(case: Case, status: RunStatus) -> None:
    messages = case.client.beta.threads.messages
    before = await messages.list(case.run.thread_id)
    if status not in ACTIVE:
        await case.add_message()
        return
    with pytest.raises(BadRequestError) as error:
        await case.add_message()
    expected = f"Can't add messages to {case.run.thread_id} while a run {case.run.id} is active."
    assert message_of(error) == expected
    assert (await messages.list(case.run.thread_id)).data == before.data


async def test_a_second_run_is_refused_while_the_first_is_active(
    case: Case, status: RunStatus
) -> None:
    if status not in ACTIVE:
        assert (await case.run_again()).status == "queued"
        return
    with pytest.raises(BadRequestError) as error:
        await case.run_again()
    expected = f"Thread {case.run.thread_id} already has an active run {case.run.id}."
    assert message_of(error) == expected
    assert (await case.read()).status == status


async def test_metadata_can_be_changed_in_every_status(case: Case, status: RunStatus) -> None:
    changed = await case.client.beta.threads.runs.update(
        case.run.id, thread_id=case.run.thread_id, metadata={"note": "seen"}
    )
    assert (changed.status, changed.metadata) == (status, {"note": "seen"})


async def test_the_times_of_a_run_tell_how_it_ended(case: Case, status: RunStatus) -> None:
    run = await case.read()
    ends = {
        "cancelled": run.cancelled_at,
        "failed": run.failed_at,
        "completed": run.completed_at,
        "incomplete": run.completed_at,
    }
    if status in ends:
        assert ends[status] is not None
    times = [run.cancelled_at, run.failed_at, run.completed_at]
    assert sum(time is not None for time in times) == (status in ends)
    assert (run.expires_at is None) == (status in FINAL)
    assert (run.started_at is None) == (status in {"queued", "expired", "cancelled"})
    assert (run.required_action is None) == (status != "requires_action")
    assert (run.last_error is None) == (status != "failed")
    assert (run.incomplete_details is None) == (status != "incomplete")
