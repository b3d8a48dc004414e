"""What a walk says about the ends of runs: can each be reached, and by whom."""

from collections import Counter, defaultdict

from orchestrator.states import FINAL, RunStatus
from tests.unit.explorer.moves import Actor
from tests.unit.explorer.walk import Walk

_ALIVE = (Actor.CLIENT, Actor.OPERATOR, Actor.ENGINE, Actor.WORKER, Actor.CLOCK)


def cannot_end(walk: Walk) -> set[int]:
    """States from which no final status can be reached, whatever happens."""
    ends = {state for state in range(len(walk.states)) if walk.status(state) in FINAL}
    return set(range(len(walk.states))) - _reaching(walk, ends, tuple(Actor))


def cannot_recover(walk: Walk) -> set[int]:
    """States from which a run can be completed only by good luck: those who are alive do not get it
    there before the deadline. Runs that have ended or are being cancelled are left out.
    """
    states = range(len(walk.states))
    completed = {state for state in states if walk.status(state) is RunStatus.COMPLETED}
    recovering = _reaching(walk, completed, _ALIVE)
    given_up = FINAL | {RunStatus.CANCELLING}
    return {s for s in states if s not in recovering and walk.status(s) not in given_up}


def outlives_the_clock(walk: Walk) -> set[int]:
    """States that timers alone, in whatever order, do not bring to a final status, when every
    client, engine and worker is gone.
    """
    before: defaultdict[int, list[int]] = defaultdict(list)
    ways: Counter[int] = Counter()
    for source, target in walk.edges.by(Actor.CLOCK, Actor.DEADLINE):
        before[target].append(source)
        ways[source] += 1
    ended = [state for state in range(len(walk.states)) if walk.status(state) in FINAL]
    for state in ended:  # grows: a state has ended when each of its ways has
        for source in before[state]:
            ways[source] -= 1
            if ways[source] == 0:
                ended.append(source)
    return set(range(len(walk.states))) - set(ended)


def _reaching(walk: Walk, goals: set[int], actors: tuple[Actor, ...]) -> set[int]:
    """The states from which these actors can get to a goal."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in walk.edges.by(*actors):
        before[target].append(source)
    found, waiting = set(goals), list(goals)
    while waiting:
        fresh = [source for source in before[waiting.pop()] if source not in found]
        found.update(fresh)
        waiting += fresh
    return found
