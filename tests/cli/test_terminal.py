"""What reaches the terminal."""

import pytest

from cli.terminal import duration, one_line, print_table, printable


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
