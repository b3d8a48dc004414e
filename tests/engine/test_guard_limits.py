"""How much a guardrail may write in the place of a text."""

import pytest

from orchestrator import Rewrite, Stop
from orchestrator.engine.guards import Guards, Look
from orchestrator.fields import MAX_TEXT_CHARS
from orchestrator.guardrails import Guardrail, Verdict
from orchestrator.records import GuardPoint


async def look(on: GuardPoint, text: str, verdict: Verdict) -> Look:
    """What becomes of the text under a rule of this verdict."""

    async def says_it(text: str, tool: str = "") -> Verdict:
        return verdict

    return await Guards([Guardrail("long", on, says_it)]).look(on, text, "msg_1")


@pytest.mark.parametrize("on", GuardPoint)
@pytest.mark.parametrize("kind", [Rewrite, Stop])
async def test_what_is_longer_than_a_message_may_be_is_not_taken_and_nothing_passes(
    on: GuardPoint, kind: type[Rewrite] | type[Stop]
) -> None:
    found = await look(on, "Hello.", kind("x" * (MAX_TEXT_CHARS + 1)))
    assert found.stop == "The guardrail long could not be applied, so this was stopped."
    (firing,) = found.firings
    assert firing.reason == "it wrote 256001 characters, at most 256000 are taken"


async def test_a_long_text_may_be_rewritten_without_becoming_longer() -> None:
    long = "x" * (MAX_TEXT_CHARS + 9)
    other = Rewrite(long.replace("x", "y"))
    assert (await look(GuardPoint.TOOL_OUTPUT, long, other)).text == other.text
    assert (await look(GuardPoint.TOOL_OUTPUT, long, Rewrite(long + "y"))).stop is not None


async def test_a_text_may_grow_up_to_the_limit() -> None:
    most = Rewrite("x" * MAX_TEXT_CHARS)
    assert (await look(GuardPoint.INPUT, "Hello.", most)).text == most.text
