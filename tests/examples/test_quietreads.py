"""QuietReads: its library, its tools, and the conversation as the scripted models play it."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.program import EXAMPLE_APP
from examples.quietreads import guardrails, library, tools
from examples.quietreads.conversation import ASSISTANT, QUESTIONS
from orchestrator import Rewrite, Stop
from orchestrator.app_file.reader import load_app
from orchestrator.conversation import Answered, Conversation, Heard, Item, Said
from orchestrator.llm.protocol import Reply, TurnRequest
from orchestrator.llm.scripted import ScriptedModel
from orchestrator.outputs import output_text
from orchestrator.records import AskedCall, RunSpec
from orchestrator.tools import Tool


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a library."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_processes_that_start_together_make_one_whole_library() -> None:
    script = "from examples.quietreads.library import count_on; print(count_on('want'))"
    racers = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [racer.communicate()[0].strip() for racer in racers] == ["18"] * 4
    assert list(library.library_path().parent.iterdir()) == [library.library_path()]


def test_a_shelf_shows_the_newest_books_and_how_many_there_are() -> None:
    shelf = tools.get_recently_finished.call({"limit": 2})
    assert (shelf["total"], shelf["shown"]) == (14, 2)
    assert [book["title"] for book in shelf["books"]] == ["Piranesi", "The Remains of the Day"]
    assert shelf["books"][0]["rating"] == 5
    assert [book["page"] for book in tools.get_currently_reading.call("")["books"]] == [40, 212]


@pytest.mark.parametrize("search", ["remains", "ISHIGURO", " pier "])
def test_notes_are_found_by_title_author_or_words(search: str) -> None:
    notes = tools.get_reading_notes.call({"search": search})["notes"]
    assert "The Remains of the Day" in {note["title"] for note in notes}


def test_a_search_is_a_word_and_never_a_pattern_or_a_query() -> None:
    for search in ["%", "' OR 1=1 --"]:
        assert tools.get_reading_notes.call({"search": search})["notes"] == []


APP = load_app(EXAMPLE_APP)

SCRIPTS = EXAMPLE_APP.parent / "scripts"

TOOLS = tuple(APP.tools.values())


def test_the_assistant_offers_all_tools_that_the_workers_publish() -> None:
    published = {item.spec.name for item in vars(tools).values() if isinstance(item, Tool)}
    (assistant,) = APP.assistants()
    assert assistant["name"] == ASSISTANT
    assert {tool["function"]["name"] for tool in assistant["tools"]} == published


def test_no_model_is_shown_an_address() -> None:
    rewrite = guardrails.no_addresses("Write to ann.b@books.example.org, please.")
    assert rewrite == Rewrite("Write to (an e-mail address), please.")
    assert guardrails.no_addresses("3 @ 4", "get_reading_notes") == Rewrite("3 @ 4")


def test_a_search_loses_its_quotation_marks_and_nothing_else() -> None:
    asked = '{"search": "\\"The Overstory\\"", "limit": 2}'
    plain = Rewrite('{"search": "The Overstory", "limit": 2}')
    assert guardrails.plain_search(asked, "get_reading_notes") == plain
    for other in ['{"search":"The Overstory"}', "{", "[]", "7", "{}", '{"search": 7}']:
        assert guardrails.plain_search(other, "get_reading_notes") is None


def test_an_end_is_not_told_and_a_dying_hero_may_be_recommended() -> None:
    assert isinstance(guardrails.no_spoilers("It turns out to be the butler."), Stop)
    assert guardrails.no_spoilers("Hamnet is about a boy who dies.") is None


def test_every_tool_says_what_it_is_for_and_may_be_repeated() -> None:
    for tool in TOOLS:
        assert tool.spec.side_effects == "none"
        assert len(tool.spec.description) > 60
        for parameter in tool.spec.parameters["properties"].values():
            assert parameter["description"]


async def test_the_scripted_models_hold_the_whole_conversation() -> None:
    items: list[Item] = []
    answers = []
    rounds = []
    for question, model in QUESTIONS:
        items.append(Heard(({"type": "text", "text": {"value": question}},)))
        turns = [turn async for turn in play(model, items)]
        answers.append(turns[-1].text or "")
        rounds.append([[call.name for call in turn.calls] for turn in turns[:-1]])
    assert [[len(names) for names in played] for played in rounds] == [[4, 1], [2], [1]]
    next_book, shorter_book, opinion = answers
    assert next_book.startswith("The Tartar Steppe by Dino Buzzati. You gave Piranesi 5 of 5")
    assert next_book.endswith("it fits beside Wolf Hall, where you are on page 212.")
    assert shorter_book.startswith("The Invention of Morel by Adolfo Bioy Casares: speculative")
    assert shorter_book.endswith("At 35 pages a day you are through in 3 days.")
    assert "The scene on the pier undid me.” A week before that: “Slow at first." in opinion


async def play(model: str, items: list[Item]) -> AsyncIterator[Reply]:
    """One run: the model's turns, with the calls answered by the tools themselves."""
    by_name = {tool.spec.name: tool for tool in TOOLS}
    spec = RunSpec(assistant_id="asst_1", model=model)
    for turn in range(10):
        request = TurnRequest("run_1", spec, Conversation("", tuple(items)), turn, 0)
        (reply,) = [
            piece
            async for piece in ScriptedModel(SCRIPTS).stream(request)
            if isinstance(piece, Reply)
        ]
        yield reply
        asked = tuple(
            AskedCall(call_id=f"call_{turn}_{index}", name=call.name, arguments=call.arguments)
            for index, call in enumerate(reply.calls)
        )
        items.append(Said(reply.text or "", asked))
        for call in asked:
            tool = by_name[call.name]
            text = output_text(tool.call(call.arguments))
            items.append(Answered(call.call_id, call.name, text))
        if not asked:
            return
