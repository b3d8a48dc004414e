"""The story of a run as the terminal has it."""

from typing import Any

from cli.timeline import timeline

LINES = [
    {"at_ms": 1000, "subject": "run", "text": "queued"},
    {"at_ms": 2500, "subject": "message", "text": "completed\x1b[2J"},
]


def told(lines: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[str]:
    return list(timeline({"created_ms": 1000, "timeline": lines, "events": events}))


def test_each_line_has_its_distance_from_the_beginning() -> None:
    assert told(LINES, [{"type": "run.created"}]) == [
        "   +0.000 s  run     queued",
        "   +1.500 s  message completed[2J",
    ]


def test_a_story_whose_log_was_trimmed_says_so() -> None:
    first, *rest = told(LINES[:1], [])
    assert first == "The run's log is not kept any more. What is left are its calls:"
    assert rest == ["   +0.000 s  run     queued"]
    assert told([], []) == ["The run's log is not kept any more."]
