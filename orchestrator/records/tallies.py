"""What model turns used and cost, summed up."""

from orchestrator.records.record import Record
from orchestrator.records.runs import Price, Usage


class Tally(Record):
    """Sums over turns that were answered.

    ``uncounted_turns``: their provider named no tokens. ``unpriced_turns``: what they cost is not
    known, since their tokens or the price of their model are not; ``cost_micros`` is the cost of
    all others, in millionths of a dollar.
    """

    turns: int = 0
    uncounted_turns: int = 0
    unpriced_turns: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_micros: int = 0

    @property
    def cost_usd(self) -> float | None:
        """The cost as far as it is known; ``None``: nothing is known of it."""
        is_unknown = 0 < self.turns == self.unpriced_turns
        return None if is_unknown else self.cost_micros / 1_000_000

    def plus(self, other: "Tally") -> "Tally":
        """The sum of both."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in Tally.model_fields}
        return Tally(**sums)


def tally_of_turn(usage: Usage | None, before: Usage | None, price: Price | None) -> Tally:
    """What one turn adds to the sums, after ``before`` was used by the turns before it.

    Its cost is how much that of the whole run grows, so that no cent is lost by rounding.
    """
    if usage is None:
        return Tally(turns=1, uncounted_turns=1, unpriced_turns=1)
    before = before or Usage()
    return Tally(
        turns=1,
        unpriced_turns=int(price is None),
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        cost_micros=price.micros(before.plus(usage)) - price.micros(before) if price else 0,
    )
