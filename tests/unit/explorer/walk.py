"""The walk over all states of a scenario.

A document is computed once, however many states share it; the tokens make the states.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Final

from orchestrator.commands import AddMessages, Command, CreateRun, Expire
from orchestrator.decide import decide
from orchestrator.decisions import Decision
from orchestrator.errors import BadRequest, IllegalTransition, NotNow, ThreadBusy
from orchestrator.records import CallState, Run
from orchestrator.states import LEGAL, RunStatus, Trigger
from tests.unit.explorer.history import fingerprint, without_history
from tests.unit.explorer.moves import (
    STREAM,
    TAKEN,
    Actor,
    Move,
    Tokens,
    carry,
    meaningful,
    moves,
    work_of,
)
from tests.unit.explorer.scenario import CREATE, RUN_ID, Scenario
from tests.unit.play import TTL_MS, spec
from tests.unit.world import World

NOW_MS: Final = 0
_NEXT_ON_THREAD: Final = (CreateRun("run_2", spec(), TTL_MS), AddMessages(()))

State = tuple[int, Tokens]
"""The number of a document, and where the work is."""


@dataclass(frozen=True, slots=True)
class Document:
    """A run as it is stored. ``tokens`` are those that can matter to it."""

    world: World
    run: Run
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Step:
    """A move from a document: where it leads, and the tokens it leaves."""

    move: Move
    target: int
    gives: Tokens


@dataclass(slots=True)
class Edges:
    """From, who, to: the n-th of each is the n-th edge."""

    sources: "array[int]" = field(default_factory=lambda: array("L"))
    actors: list[Actor] = field(default_factory=list)
    targets: "array[int]" = field(default_factory=lambda: array("L"))

    def __len__(self) -> int:
        return len(self.actors)

    def add(self, source: int, actor: Actor, target: int) -> None:
        """One more edge."""
        self.sources.append(source)
        self.actors.append(actor)
        self.targets.append(target)

    def by(self, *actors: Actor) -> Iterator[tuple[int, int]]:
        """The edges that are made by these actors and lead to another state."""
        for source, actor, target in zip(self.sources, self.actors, self.targets, strict=True):
            if actor in actors and source != target:
                yield source, target


@dataclass(slots=True)
class Walk:
    """All documents and states of a scenario, by number, and the edges between the states."""

    scenario: Scenario
    documents: list[Document] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    edges: Edges = field(default_factory=Edges)
    reached: set[tuple[RunStatus, Trigger]] = field(default_factory=set)
    _steps: dict[int, list[Step]] = field(default_factory=dict)
    _document_numbers: dict[str, int] = field(default_factory=dict)
    _state_numbers: dict[State, int] = field(default_factory=dict)
    _came_from: list[tuple[int, Move] | None] = field(default_factory=list)

    def run(self) -> "Walk":
        """Walk until nothing new is found. An assertion that fails tells the way to it."""
        world, decision = World().ask(CREATE, NOW_MS, None)
        self._enter(self._document(world), _work(decision), None)
        for state in count():
            if state == len(self.states):
                break
            try:
                self._visit(state)
            except AssertionError as error:
                error.add_note(f"{self.scenario.name}: {' > '.join(self.way_to(state))}")
                raise
        return self

    def status(self, state: int) -> RunStatus:
        """The run's status in a state."""
        return self.documents[self.states[state][0]].run.status

    def way_to(self, state: int) -> list[str]:
        """The moves that led to a state for the first time."""
        way = []
        while step := self._came_from[state]:
            state, move = step
            way.append(f"{move.actor}: {move.name}")
        return way[::-1]

    def _visit(self, state: int) -> None:
        document, tokens = self.states[state]
        if document not in self._steps:
            self._steps[document] = list(self._steps_from(document))
        for step in self._steps[document]:
            move = step.move
            if move.needs is None:
                left = tokens
            elif move.needs in tokens:
                left = tokens - {move.needs}
            else:
                continue
            target = self._enter(step.target, left | step.gives, (state, move))
            self.edges.add(state, move.actor, target)

    def _enter(self, document: int, tokens: Tokens, way: tuple[int, Move] | None) -> int:
        """The number of a state, which may be new."""
        found = self.documents[document]
        state = (document, carry(tokens, found.tokens))
        number = self._state_numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self._came_from.append(way)
            _check_that_work_is_somewhere(found, state[1])
        return number

    def _steps_from(self, number: int) -> Iterator[Step]:
        document = self.documents[number]
        _check_the_lock(document)
        for move in moves(document.world, self.scenario):
            step = self._apply(number, move, move.command) if move.command else None
            step = step or Step(move, number, move.gives)
            assert step.target == number or not move.is_void, f"{move} changed the run"
            yield step

    def _apply(self, number: int, move: Move, command: Command) -> Step:
        document = self.documents[number]
        now_ms = TTL_MS if isinstance(command, Expire) else NOW_MS
        try:
            world, decision = document.world.ask(command, now_ms, move.run_id)
        except IllegalTransition as error:
            raise AssertionError(move) from error
        except (BadRequest, NotNow):
            return Step(move, number, frozenset())
        if move.run_id == RUN_ID:
            self.reached |= _table_edges(document.run.status, decision, command)
        return Step(move, self._document(world), move.gives | _work(decision))

    def _document(self, world: World) -> int:
        """The number of what is stored, which may be new."""
        world = without_history(world)
        number = self._document_numbers.setdefault(fingerprint(world), len(self.documents))
        if number == len(self.documents):
            self.documents.append(Document(world, world.run(RUN_ID), meaningful(world)))
        return number


def _work(decision: Decision) -> Tokens:
    return frozenset(token for effect in decision.effects for token in work_of(effect))


def _table_edges(
    status: RunStatus, decision: Decision, command: Command
) -> set[tuple[RunStatus, Trigger]]:
    """The edges of the table that a decision went along. Two of them lead from ``cancelling`` to
    ``cancelled``; the deadline's is told from the other by its command.
    """
    told = [RunStatus(e.status) for e in decision.events if e.type == f"run.{e.status}"]
    return {
        (source, trigger)
        for source, target in pairwise([status, *told])
        for trigger in Trigger
        if LEGAL.get((source, trigger)) is target
        and (trigger is Trigger.EXPIRE) == isinstance(command, Expire)
    }


def _check_that_work_is_somewhere(document: Document, tokens: Tokens) -> None:
    """Otherwise only the deadline would help: nobody has the turn or the call, or could find it."""
    if document.run.status is RunStatus.QUEUED:
        assert tokens & {STREAM, TAKEN}, "the turn is nowhere"
    for call in document.world.load(RUN_ID).calls:
        if call.state is CallState.DISPATCHED:
            places = {(call.id, place) for place in ("outbox", "queue", "popped")}
            assert tokens & places, f"{call.id} is nowhere"


def _check_the_lock(document: Document) -> None:
    """A thread takes messages and runs exactly when its runs have ended."""
    world = document.world
    aggregate = world.load(world.thread.active_run_id)
    is_over = all(world.run(run_id).is_final for run_id in world.runs)
    for command in _NEXT_ON_THREAD:
        try:
            decide(aggregate, command, NOW_MS)
        except ThreadBusy:
            assert not is_over, f"{command} refused after the end"
        else:
            assert is_over, f"{command} accepted before the end"
