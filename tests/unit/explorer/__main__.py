"""``python -m tests.unit.explorer``: walk every scenario and say how much there was to see."""

import sys

from tests.unit.explorer.findings import cannot_end, cannot_recover, outlives_the_clock
from tests.unit.explorer.scenario import SCENARIOS
from tests.unit.explorer.walk import Walk


def main() -> None:
    """One line per scenario; the last three numbers must be 0."""
    line = "{:32} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6}\n"
    heads = ("scenario", "documents", "states", "edges", "no end", "no rec", "no clk")
    sys.stdout.write(line.format(*heads))
    for scenario in SCENARIOS:
        walk = Walk(scenario).run()
        faults = (cannot_end(walk), cannot_recover(walk), outlives_the_clock(walk))
        sizes = (len(walk.documents), len(walk.states), len(walk.edges))
        sys.stdout.write(line.format(scenario.name, *sizes, *map(len, faults)))


if __name__ == "__main__":
    main()
