"""From transcript entries to what a model is shown."""

from itertools import permutations
from typing import Literal

import pytest

from orchestrator.conversation import NO_OUTPUT, Answered, Heard, Said, build, grouped
from orchestrator.records import AskedCall, CallRound, Entry, Json, Message, Output


def text_part(text: str) -> Json:
    return {"type": "text", "text": {"value": text, "annotations": []}}


def message(role: Literal["user", "assistant"], *parts: Json, turn: int | None = None) -> Message:
    return Message(
        seq=0,
        id="msg_a",
        thread_id="thread_a",
        created_ms=0,
        role=role,
        content=parts,
        run_id=None if role == "user" else "run_a",
        turn=turn,
    )


def call(call_id: str) -> AskedCall:
    return AskedCall(call_id=call_id, name=f"tool_{call_id}", arguments="{}")


def asked(*call_ids: str, turn: int = 0) -> CallRound:
    return CallRound(seq=0, run_id="run_a", turn=turn, calls=tuple(map(call, call_ids)))


def output(call_id: str) -> Output:
    return Output(seq=0, run_id="run_a", call_id=call_id, text=f"output of {call_id}")


def answered(call_id: str) -> Answered:
    return Answered(call_id, f"tool_{call_id}", f"output of {call_id}")


QUESTION = message("user", text_part("Why?"))


def test_messages_keep_their_order_and_the_system_text_stands_apart() -> None:
    answer = message("assistant", text_part("Because."), turn=0)

    conversation = build("Be kind.", grouped([QUESTION, answer, QUESTION]))

    heard = Heard((text_part("Why?"),))
    assert conversation.system == "Be kind."
    assert conversation.items == (heard, Said("Because."), heard)


def test_words_and_calls_of_one_turn_are_said_together() -> None:
    spoken = message("assistant", text_part("Let me see."), turn=0)

    items = build("", grouped([QUESTION, spoken, asked("a"), output("a")])).items

    assert items[1:] == (Said("Let me see.", (call("a"),)), answered("a"))


def test_words_of_another_turn_stay_apart_from_calls() -> None:
    spoken = message("assistant", text_part("Done."), turn=0)

    items = build("", grouped([spoken, asked("a", turn=1), output("a")])).items

    assert items == (Said("Done."), Said("", (call("a"),)), answered("a"))


def test_what_the_user_said_is_never_taken_for_the_models_words() -> None:
    items = build("", grouped([QUESTION, asked("a"), output("a")])).items

    assert items == (Heard((text_part("Why?"),)), Said("", (call("a"),)), answered("a"))


@pytest.mark.parametrize("order", [*permutations("abc")])
def test_answers_follow_the_order_of_their_calls_however_they_arrived(order: tuple[str]) -> None:
    items = build("", grouped([asked("a", "b", "c"), *map(output, order)])).items

    assert items[1:] == (answered("a"), answered("b"), answered("c"))


def test_rounds_keep_their_own_answers_also_when_the_next_round_has_begun() -> None:
    entries: list[Entry] = [asked("a"), output("a"), asked("b", turn=1), output("b")]

    said = [item for item in build("", grouped(entries)).items if isinstance(item, Said)]

    assert build("", grouped(entries)).items == (said[0], answered("a"), said[1], answered("b"))


def test_a_call_that_was_never_answered_is_shown_with_an_error() -> None:
    items = build("", grouped([asked("a", "b"), output("b"), QUESTION])).items

    assert items[1:3] == (Answered("a", "tool_a", NO_OUTPUT), answered("b"))


def test_a_refusal_is_what_the_model_said() -> None:
    refused = message("assistant", {"type": "refusal", "refusal": "I will not."}, turn=0)

    assert build("", grouped([refused])).items == (Said("I will not."),)


def test_text_parts_are_joined_and_images_are_no_text() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

    assert Heard((text_part("One"), image, text_part("two"))).text == "One\ntwo"


def test_a_turn_and_its_answers_are_one_group_with_all_of_their_places() -> None:
    spoken = message("assistant", text_part("Let me see."), turn=0)
    placed: list[Entry] = [
        QUESTION,
        spoken.but(seq=1),
        asked("a", "b").but(seq=2),
        output("b").but(seq=3),
        QUESTION.but(seq=4),
        output("a").but(seq=5),
    ]

    groups = grouped(placed)

    assert [(group.seqs, group.run_id) for group in groups] == [
        ((0,), None),
        ((1, 2, 5, 3), "run_a"),
        ((4,), None),
    ]
    assert grouped([]) == ()


def test_a_group_is_pinned_by_its_tool_or_its_message() -> None:
    marked = QUESTION.but(metadata={"runstate_pin": "true"})
    spoken = message("assistant", text_part("I keep this."), turn=0)
    kept = asked("a").but(calls=(call("a").but(is_pinned=True), call("b")))

    def pinned(*entries: Entry) -> list[bool]:
        return [group.is_pinned for group in grouped(entries)]

    assert pinned(QUESTION, marked, QUESTION.but(metadata={"runstate_pin": "no"})) == [
        False,
        True,
        False,
    ]
    assert (
        pinned(spoken, kept) == pinned(spoken.but(metadata=marked.metadata), asked("a")) == [True]
    )
    assert pinned(asked("a")) == [False]


def test_what_was_lost_half_way_is_not_shown_again() -> None:
    lost = message("assistant", text_part("Let me"), turn=0).but(is_void=True)

    assert build("", grouped([QUESTION, lost])).items == (Heard((text_part("Why?"),)),)
