"""What reaches the terminal."""

import asyncio

import pytest

from cli.terminal import counted, duration, one_line, print_table, printable


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0084, "8 ms"), (3.21, "3.2 s"), (119.9, "119.9 s"), (725, "12 min")],
)
def test_a_duration_is_told_in_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_long_text_is_cut_to_one_line() -> None:
    assert one_line("a\n  b\tc", 10) == "a b c"
    assert one_line("x" * 20, 10) == "xxxxxxxxx…"


def test_printable_text_keeps_its_lines_and_loses_its_controls() -> None:
    assert printable("one\n\x1b[31mtwo\x9b\x00é") == "one\n[31mtwoé"


def test_no_id_is_cut_when_the_output_goes_into_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("run", "note"), [("run_" + "x" * 100, "[bold]as it is[/bold]")])
    printed = capsys.readouterr().out
    assert "RUN" in printed
    assert "run_" + "x" * 100 in printed
    assert "[bold]as it is[/bold]" in printed


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_what_is_done_is_counted_if_somebody_is_looking(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", str(int(is_terminal)))
    tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(4)]
    with counted(tasks, "plays"):
        await asyncio.wait(tasks)
        await asyncio.sleep(0)
    assert ("plays" in capsys.readouterr().err) == is_terminal


def test_in_a_narrow_terminal_texts_are_wrapped_before_numbers_are_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cli.terminal.PIPE_WIDTH", 30)
    print_table(("case", "tokens"), [("a" * 30, "1,234,567")], wrapped=1)
    printed = capsys.readouterr().out
    assert "1,234,567" in printed
    assert printed.count("a") == 30
