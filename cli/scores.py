"""How often cases were as expected, and what they took: one row for each case and model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from cli.terminal import print_table
from cli.verdict import Played

Json = dict[str, Any]

COLUMNS = ("case", "model", "passed", "turns", "tokens", "cost", "seconds")


@dataclass(frozen=True, slots=True)
class Play:
    """One play of a case; ``complaint`` is what was not as expected."""

    case: str
    played: Played
    complaint: str | None


@dataclass(frozen=True, slots=True)
class Score:
    """All plays of one case with one model. Turns, tokens, dollars and seconds are medians."""

    plays: tuple[Play, ...]

    @property
    def failed(self) -> list[Play]:
        """The plays that were not as expected."""
        return [play for play in self.plays if play.complaint]

    @property
    def pass_rate(self) -> float:
        """The share of the others."""
        return 1 - len(self.failed) / len(self.plays)

    def median(self, field: str) -> float | None:
        """The median of a number; ``None`` if it is not known of each play."""
        numbers = [getattr(play.played, field) for play in self.plays]
        return None if None in numbers else median(numbers)


def scores(plays: Iterable[Play]) -> list[Score]:
    """The rows, of plays in order."""
    rows = groupby(plays, lambda play: (play.case, play.played.model))
    return [Score(tuple(row)) for _, row in rows]


def print_scores(rows: Sequence[Score]) -> None:
    """Prints the table, and of each row that failed the first reason with its run."""
    print_table(COLUMNS, [_cells(row) for row in rows], wrapped=2)


def failures(rows: Sequence[Score]) -> list[str]:
    """Of each row that has any: the first one, with the run to look at."""
    return [
        f"{row.failed[0].case}, {row.failed[0].played.run_id}: {row.failed[0].complaint}"
        for row in rows
        if row.failed
    ]


def as_json(rows: Sequence[Score], *, is_passed: bool) -> Json:
    """``{"passed": true, "scores": [{"case": …, "model": …, "pass_rate": 1.0, …}]}``."""
    return {"passed": is_passed, "scores": [_json(row) for row in rows]}


def _cells(row: Score) -> tuple[str, ...]:
    first = row.plays[0]
    tokens, cost_usd = row.median("tokens"), row.median("cost_usd")
    return (
        first.case,
        first.played.model,
        f"{len(row.plays) - len(row.failed)}/{len(row.plays)}",
        f"{row.median('turns'):g}",
        "-" if tokens is None else f"{tokens:,.0f}",
        "-" if cost_usd is None else f"${cost_usd:.4f}",
        f"{row.median('seconds'):.2f}",
    )


def _json(row: Score) -> Json:
    first = row.plays[0]
    medians = {name: row.median(name) for name in ("turns", "tokens", "cost_usd", "seconds")}
    return {
        "case": first.case,
        "model": first.played.model,
        "runs": len(row.plays),
        "pass_rate": row.pass_rate,
        **medians,
        "failures": [{"run_id": x.played.run_id, "reason": x.complaint} for x in row.failed],
    }
