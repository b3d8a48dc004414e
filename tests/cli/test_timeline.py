"""The story of a run as the terminal has it."""

from cli.timeline import timeline


def test_each_line_has_its_distance_from_the_beginning() -> None:
    told = [(1000, "run", "queued"), (2500, "message", "completed\x1b[2J")]
    lines = [{"at_ms": at_ms, "subject": who, "text": what} for at_ms, who, what in told]
    assert list(timeline({"created_ms": 1000, "timeline": lines})) == [
        "   +0.000 s  run     queued",
        "   +1.500 s  message completed[2J",
    ]
