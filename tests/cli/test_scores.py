"""Plays become rows: rates, medians, and why something failed."""

import pytest

from cli.scores import Play, as_json, failures, print_scores, scores
from tests.cli.test_verdict import played


def plays() -> list[Play]:
    """Two cases, the first of them with two models."""
    return [
        Play("a", played(turns=1, tokens=100, cost_usd=0.5, seconds=1.0), None),
        Play("a", played(turns=3, tokens=300, cost_usd=0.1, seconds=0.25), "took too long"),
        Play("a", played(turns=3, tokens=200, cost_usd=0.2, seconds=2.0), "said nothing"),
        Play("a", played(model="gpt-y", run_id="run_9"), "it broke"),
        Play("b", played(tokens=None, turns=2), None),
    ]


def test_a_row_is_a_case_with_a_model() -> None:
    rows = scores(plays())
    assert [(row.plays[0].case, len(row.plays)) for row in rows] == [("a", 3), ("a", 1), ("b", 1)]
    assert [row.pass_rate for row in rows] == [pytest.approx(1 / 3), 0, 1]


def test_numbers_are_medians_and_unknown_where_one_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores(scores(plays()))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["CASE", "MODEL", "PASSED", "TURNS", "TOKENS", "COST", "SECONDS"],
        ["a", "gpt-x", "1/3", "3", "200", "$0.2000", "1.00"],
        ["a", "gpt-y", "0/1", "2", "100", "-", "1.50"],
        ["b", "gpt-x", "1/1", "2", "-", "-", "1.50"],
    ]


def test_of_each_row_the_first_failure_is_told_with_its_run() -> None:
    assert failures(scores(plays())) == ["a, run_1: took too long", "a, run_9: it broke"]


def test_programs_are_told_all_failures() -> None:
    told = as_json(scores(plays()), is_passed=False)
    first = told["scores"][0]
    assert (told["passed"], first["case"], first["runs"]) == (False, "a", 3)
    assert (first["turns"], first["tokens"], first["cost_usd"]) == (3, 200, 0.2)
    assert [one["reason"] for one in first["failures"]] == ["took too long", "said nothing"]
