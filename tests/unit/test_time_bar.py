"""The drawing of a run's time."""

from api.pages.time_bar import MAX_LANES, draw
from orchestrator.records import ToolCall
from orchestrator.story.time_spent import Place, Span
from tests.unit.test_story import call as a_call
from tests.unit.test_turn_record import RECORD

SPANS = [Span(Place.QUEUED, 1_000, 1_010), Span(Place.MODEL, 1_010, 1_600)]


def call(**changes: object) -> ToolCall:
    return a_call(created_ms=1_500, queue="tools").but(**changes)


def test_bars_are_in_thousandths_of_the_time_and_shares_in_hundredths() -> None:
    drawing = draw(1_000, 2_000, SPANS, (), ())
    assert [(bar.kind, bar.x, bar.width) for bar in drawing.bars] == [
        ("queued", 0, 10),
        ("model", 10, 590),
    ]
    assert drawing.bars[1].text == "model: 590 ms"
    assert [(share.name, share.time_ms, round(share.percent)) for share in drawing.shares] == [
        ("queued", 10, 2),
        ("model", 590, 98),
    ]


def test_each_turn_and_call_has_a_lane_in_order_of_its_beginning() -> None:
    turn = RECORD.but(turn=1, asked_ms=1_700, latency_ms=100)
    done = call(started_ms=1_600, finished_ms=1_700)
    waiting = call(id="call_2", created_ms=1_800, queue=None)
    lanes = draw(1_000, 2_000, (), [turn], [waiting, done]).lanes
    assert [(lane.label, lane.target) for lane in lanes] == [
        ("look_up()", "call-call_1"),
        ("turn 1", "turn-1"),
        ("look_up()", "call-call_2"),
    ]
    assert [(bar.kind, bar.x, bar.width) for lane in lanes for bar in lane.bars] == [
        ("tools-waiting", 500, 100),
        ("tools-running", 600, 100),
        ("model", 700, 100),
        ("client", 800, 200),
    ]


def test_nothing_is_too_thin_to_be_seen_or_outside_of_the_drawing() -> None:
    short = [Span(Place.QUEUED, 1_000, 1_001), Span(Place.MODEL, 100_999, 101_000)]
    late = RECORD.but(asked_ms=150_000, latency_ms=9_000)
    drawing = draw(1_000, 101_000, short, [late], ())
    bars = [*drawing.bars, *drawing.lanes[0].bars]
    assert [(bar.x, bar.width) for bar in bars] == [(0, 2), (998, 2), (998, 2)]


def test_a_run_that_has_just_begun_can_be_drawn() -> None:
    assert draw(1_000, 1_000, (), (), ()).total_ms == 1


def test_of_very_many_calls_the_first_are_drawn() -> None:
    calls = [call(id=f"call_{number}") for number in range(MAX_LANES + 1)]
    drawing = draw(1_000, 2_000, (), (), calls)
    assert (len(drawing.lanes), drawing.is_cut) == (MAX_LANES, True)
