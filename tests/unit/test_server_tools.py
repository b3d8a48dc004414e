"""Tools that the model's provider runs: what of their limits a run has left."""

from orchestrator.server_tools import name_of, named_twice, server_tools, with_uses_left
from tests.unit.play import a_turn

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
FETCH = {"type": "web_fetch_20250910"}
FUNCTION = {"type": "function", "function": {"name": "web_search"}}
FOREIGN = {"type": "code_interpreter"}


def test_they_are_told_from_all_others_by_their_type() -> None:
    assert server_tools([SEARCH, FETCH, FUNCTION, FOREIGN]) == (SEARCH, FETCH)
    assert [name_of(SEARCH), name_of(FETCH)] == ["web_search", "web_fetch"]


def test_a_name_belongs_to_one_tool_of_a_run_whoever_runs_it() -> None:
    newer = {"type": "web_search_20260209"}
    other = {"type": "function", "function": {"name": "look_up"}}
    assert named_twice([SEARCH, FETCH, other, FOREIGN, FOREIGN]) == []
    assert named_twice([SEARCH, newer, other, other]) == ["look_up", "web_search"]
    assert named_twice([SEARCH, FUNCTION]) == ["web_search"]


def test_what_is_left_of_a_limit_is_what_the_run_has_not_used() -> None:
    tools = (SEARCH, FETCH, FUNCTION)
    search, *others = with_uses_left(tools, {"web_search": 2, "web_fetch": 9})
    assert search["max_uses"] == 1
    assert others == [FETCH, FUNCTION]
    assert with_uses_left(tools, {"web_search": 5})[0]["max_uses"] == 0


def test_uses_add_up_over_the_turns_of_a_run_and_make_no_calls() -> None:
    play = a_turn()
    for uses in ({"web_search": 2}, {}, {"web_search": 1, "web_fetch": 1}):
        play.reply("missing", server_uses=uses)
        play.start()
    play.reply(text="Found.", server_uses={"web_fetch": 1})
    assert play.run.server_uses == {"web_search": 3, "web_fetch": 2}
    assert {call.name for call in play.calls} == {"missing"}


def test_what_the_provider_wrote_is_kept_with_the_calls_beside_it() -> None:
    play = a_turn()
    blocks = ({"type": "thinking", "thinking": "Hm."},)
    play.reply("look_up", blocks=blocks)
    assert play.world.entries[-1].model_dump()["blocks"] == blocks
