"""The story of a run, told from its report."""

from typing import Any

from cli.timeline import Happening, began_ms, timeline


def event(kind: str, at_ms: int, status: str, public: str = "", detail: str = "") -> Any:
    return {
        "id": f"{at_ms}-0",
        "type": kind,
        "at_ms": at_ms,
        "status": status,
        "public_status": public or status,
        "detail": detail or None,
    }


def call(**changes: Any) -> Any:
    plain: dict[str, Any] = {
        "id": "call_1",
        "name": "look_up",
        "executor": "worker",
        "state": "dispatched",
        "attempts": 0,
        "worker": None,
        "created_ms": 1200,
        "approve_by_ms": None,
        "approved_ms": None,
        "started_ms": None,
        "finished_ms": None,
        "error": None,
        "late": [],
    }
    return plain | changes


def report(*, events: list[Any], calls: list[Any] | None = None, arguments: str = "{}") -> Any:
    asked = {"id": "call_1", "type": "function", "function": {"arguments": arguments}}
    return {
        "events": events,
        "calls": calls or [],
        "steps": [
            {"step_details": {"type": "tool_calls", "tool_calls": [asked]}},
            {"step_details": {"type": "message_creation"}},
        ],
    }


CREATED = [event("run.created", 1000, "queued"), event("run.queued", 1000, "queued")]


def told(story: list[Happening]) -> list[str]:
    return [f"{happening.subject} {happening.text}" for happening in story]


def test_a_run_is_told_with_its_distance_from_the_beginning() -> None:
    known = report(events=[*CREATED, event("run.in_progress", 2500, "in_progress")])
    lines = [happening.line(began_ms(known)) for happening in timeline(known)]
    assert lines == ["   +0.000 s  run     queued", "   +1.500 s  run     in_progress"]


def test_a_status_that_clients_see_otherwise_is_told_twice() -> None:
    waiting = event("run.requires_action", 1200, "requires_action", "in_progress")
    assert told(timeline(report(events=[waiting]))) == [
        "run requires_action (clients see in_progress)"
    ]


def test_a_reason_is_told() -> None:
    failed = event("run.failed", 1200, "failed", detail="50 turns\nare the limit")
    assert told(timeline(report(events=[failed]))) == ["run failed: 50 turns are the limit"]


def test_a_call_is_told_from_the_asking_to_the_answer() -> None:
    settled = call(state="succeeded", attempts=1, worker="w7", started_ms=1250, finished_ms=1262)
    story = timeline(report(events=CREATED, calls=[settled], arguments='{"search": "tea"}'))
    assert told(story)[1:] == [
        'call look_up(search="tea") asked for',
        'call look_up(search="tea") started on w7',
        'call look_up(search="tea") succeeded after 12 ms, by w7',
    ]


def test_a_failed_second_attempt_is_told_with_its_error() -> None:
    settled = call(
        state="failed",
        attempts=2,
        worker="w7",
        started_ms=1250,
        finished_ms=3250,
        error="ValueError",
        late=[{"at_ms": 9000}],
    )
    assert told(timeline(report(events=[], calls=[settled], arguments="{not JSON")))[1:] == [
        "call look_up({not JSON) started on w7, attempt 2",
        "call look_up({not JSON) failed after 2.0 s, by w7: ValueError",
        "call look_up({not JSON) came late and was not used",
    ]


def test_within_a_millisecond_the_cause_comes_first() -> None:
    known = report(
        events=[
            event("run.requires_action", 1200, "requires_action"),
            event("run.queued", 1262, "queued"),
        ],
        calls=[call(state="succeeded", worker="w7", started_ms=1200, finished_ms=1262)],
    )
    assert told(timeline(known)) == [
        "run requires_action",
        "call look_up() asked for",
        "call look_up() started on w7",
        "call look_up() succeeded after 62 ms, by w7",
        "run queued",
    ]


def test_a_later_report_only_adds_to_the_story() -> None:
    early = timeline(report(events=CREATED, calls=[call()]))
    later = timeline(
        report(
            events=[*CREATED, event("run.completed", 5000, "completed")],
            calls=[call(state="succeeded", worker="w7", started_ms=1250, finished_ms=1262)],
        )
    )
    assert set(early) < set(later)


def test_what_a_terminal_would_obey_is_left_out() -> None:
    shouted = event("run.failed", 1200, "failed", detail="\x1b[2Jboo\r\a")
    assert told(timeline(report(events=[shouted]))) == ["run failed: [2Jboo"]
