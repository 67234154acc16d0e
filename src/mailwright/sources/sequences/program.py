"""The program of a sequence: its document as a graph of nodes, and `advance`, which decides each person's next step.

No I/O and no clock of its own: the worker calls `advance` with facts from the database, and a rehearsal calls it with
simulated facts on a virtual clock.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mailwright.audience.filters import EventActivity
from mailwright.domain.clock import DAY, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recurrence import Recurrence
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.api.validation import FieldError
from mailwright.sources.sequences.definition import (
    SHORTEST_CYCLE_WAIT,
    Definition,
    HappenedEvent,
    InvalidSequence,
    SequenceStep,
    StepKind,
    StopCondition,
)

START: Final = -1  # The position of a person whose entry filter was not checked yet.
# The outcome of an email step that the person reaches again, after a new version moved it, and that is not sent twice.
ALREADY_RECEIVED: Final = "already_received"
ELIGIBLE: Final = 0  # The number of the fact that the person may receive the emails of the sequence.
# The number of the fact that only the person's consent is missing: they never subscribed, or have not confirmed.
LACKS_CONSENT: Final = 1


class EndReason(StrEnum):
    FINISHED = "finished"
    GOAL = "goal"
    EXIT = "exit"
    ENTRY = "entry"  # The person did not match the entry filter.
    UNSUBSCRIBED = "unsubscribed"
    NOT_ELIGIBLE = "not_eligible"
    BOUNCED = "bounced"
    COMPLAINT = "complaint"
    SUPPRESSED = "suppressed"
    ERASED = "erased"
    REMOVED = "removed"


# The reasons why a person may not receive emails. If a run ends for one of them before its first email, the person may
# enter again as if it had not happened.
MAY_NOT_RECEIVE: Final = (
    EndReason.NOT_ELIGIBLE,
    EndReason.UNSUBSCRIBED,
    EndReason.BOUNCED,
    EndReason.COMPLAINT,
    EndReason.SUPPRESSED,
)


class StepAction(IntEnum):
    MOVE = 0
    WAIT = 1
    SEND = 2
    CHANGE = 3
    NOTIFY = 4
    CHOOSE = 5  # A branch, a split or the end of a wait for a filter: the outcome is recorded.
    END = 6
    POST = 7  # A request to a webhook.


@dataclass(frozen=True, slots=True)
class EventFact:
    """The fact that an event was reported since a person entered the sequence, or since they began to wait."""

    event: EventActivity
    is_since_entry: bool


Facts = Sequence[bool] | Mapping[int, bool]


class Decision(NamedTuple):
    action: StepAction
    next: int  # The node to move to; for a wait, the node itself.
    outcome: str = ""  # The end reason or the chosen path.
    until: Instant = 0


class PersonInSequence(Protocol):
    """A person in a sequence, and their position."""

    node: int
    entered_at: Instant
    waits_since: Instant | None  # Since when the person waits at this node; None if they have just arrived.
    # When the latest email of the run left the outbox, or the earliest time when it can leave; None without an email.
    email_left_at: Instant | None
    seed: str  # The sequence and the contact, for splits.
    zone: str | None


@dataclass(slots=True)
class Node:
    id: str
    kind: StepKind
    body: Any
    next: int = 0
    paths: tuple[int, ...] = ()  # The first node of each nested path.
    conditions: tuple[int, ...] = ()  # The numbers of the facts that decide about the paths.
    duration: Instant = 0
    where: str = ""


@dataclass(slots=True)
class Program:
    """Nodes in the order of the document. The last one is the implicit end, which has no ID."""

    list_key: str | None
    nodes: list[Node] = field(default_factory=list)
    by_id: dict[str, int] = field(default_factory=dict)
    # The first facts are `ELIGIBLE` and `LACKS_CONSENT`.
    conditions: list[Mapping[str, Any] | EventFact | None] = field(default_factory=lambda: [None, None])
    entry: int | None = None
    stops: tuple[tuple[int, EndReason], ...] = ()  # The facts that end an enrolment at any step: exits and the goal.
    goal_window: Instant = 0  # The time after a finished run in which the goal still counts.
    consent_window: Instant = 0  # The time after the entry in which an email waits for the person's consent.
    _needed: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def lists(self) -> list[str]:
        """The lists whose subscribers get its emails; an empty list stands for all bulk email."""
        return [] if self.list_key is None else [self.list_key]

    def needed_facts(self, node: int) -> tuple[int, ...]:
        """Return the numbers of the facts that `advance` reads at a node.

        `LACKS_CONSENT` is left out: only people who are not `ELIGIBLE` need it.
        """
        found = self._needed.get(node)
        if found is None:
            always = tuple(number for number, _ in self.stops)
            if node == START:
                own: tuple[int, ...] = () if self.entry is None else (self.entry,)
            elif self.nodes[node].kind is StepKind.SEND:
                own = (ELIGIBLE,)
            else:
                own = self.nodes[node].conditions
            found = self._needed[node] = tuple(dict.fromkeys((*always, *own)))
        return found

    def event_of(self, number: int) -> EventFact | None:
        """Return the event of a fact about an event, or None."""
        condition = self.conditions[number]
        return condition if isinstance(condition, EventFact) else None

    @property
    def awaited_events(self) -> dict[str, EventActivity]:
        """The events that people wait for, by the ID of the step."""
        waits = [node for node in self.nodes if node.kind is StepKind.WAIT_FOR]
        found = {node.id: self.event_of(node.conditions[0]) for node in waits}
        return {step: fact.event for step, fact in found.items() if fact is not None}

    @property
    def stop_events(self) -> list[tuple[EventActivity, EndReason]]:
        """The events that end an enrolment."""
        found = [(self.event_of(number), reason) for number, reason in self.stops]
        return [(fact.event, reason) for fact, reason in found if fact is not None]

    def awaits_consent(self, node: str | None, waits_since: Instant | None) -> bool:
        """Return whether a person at a step waits there for their consent to its email."""
        number = self.by_id.get(node or "")
        return waits_since is not None and number is not None and self.nodes[number].kind is StepKind.SEND

    def is_at_wait(self, node: int) -> bool:
        return node != START and self.nodes[node].kind in _WAITS


_WAITS: Final = frozenset({StepKind.WAIT, StepKind.WAIT_UNTIL, StepKind.WAIT_FOR})


def advance(program: Program, person: PersonInSequence, facts: Facts, now: Instant) -> Decision:
    """Decide what happens to a person at their node now. `facts` are the conditions of the program, by number."""
    for number, reason in program.stops:
        if facts[number]:
            return Decision(StepAction.END, START, reason)
    if person.node == START:
        if program.entry is not None and not facts[program.entry]:
            return Decision(StepAction.END, START, EndReason.ENTRY)
        return Decision(StepAction.MOVE, 0)
    node = program.nodes[person.node]
    if node.kind is StepKind.SEND and not facts[ELIGIBLE]:
        consent_until = person.entered_at + program.consent_window
        if facts[LACKS_CONSENT] and now < consent_until:
            return Decision(StepAction.WAIT, person.node, until=consent_until)
        return Decision(StepAction.END, START, EndReason.NOT_ELIGIBLE)
    return _DECISIONS[node.kind](node, person, facts, now)


def _send(node: Node, _person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    return Decision(StepAction.SEND, node.next)


def _wait(node: Node, person: PersonInSequence, _facts: Facts, now: Instant) -> Decision:
    since = now if person.waits_since is None else person.waits_since
    until = wait_end(node, since, person.zone, person.email_left_at)
    return Decision(StepAction.MOVE, node.next) if now >= until else Decision(StepAction.WAIT, person.node, until=until)


def _wait_for(node: Node, person: PersonInSequence, facts: Facts, now: Instant) -> Decision:
    if facts[node.conditions[0]]:
        return Decision(StepAction.CHOOSE, node.paths[0], "then")
    decision = _wait(node, person, facts, now)
    return decision if decision.action is StepAction.WAIT else Decision(StepAction.CHOOSE, node.paths[1], "else")


def _branch(node: Node, _person: PersonInSequence, facts: Facts, _now: Instant) -> Decision:
    for path, number in enumerate(node.conditions):
        if facts[number]:
            return Decision(StepAction.CHOOSE, node.paths[path], f"case {path + 1}")
    return Decision(StepAction.CHOOSE, node.paths[-1], "else")


def _split(node: Node, person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    path = chosen_share(person.seed, node.id, node.body)
    return Decision(StepAction.CHOOSE, node.paths[path], f"share {path + 1}")


def _change(node: Node, _person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    return Decision(StepAction.CHANGE, node.next)


def _notify(node: Node, _person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    return Decision(StepAction.NOTIFY, node.next)


def _webhook(node: Node, _person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    return Decision(StepAction.POST, node.next)


def _go_to(node: Node, _person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    return Decision(StepAction.MOVE, node.next)


def _end(_node: Node, _person: PersonInSequence, _facts: Facts, _now: Instant) -> Decision:
    return Decision(StepAction.END, START, EndReason.FINISHED)


_DECISIONS: Final[Mapping[StepKind, Callable[[Node, PersonInSequence, Facts, Instant], Decision]]] = {
    StepKind.SEND: _send,
    StepKind.WAIT: _wait,
    StepKind.WAIT_UNTIL: _wait,
    StepKind.WAIT_FOR: _wait_for,
    StepKind.BRANCH: _branch,
    StepKind.SPLIT: _split,
    StepKind.CHANGE: _change,
    StepKind.NOTIFY: _notify,
    StepKind.WEBHOOK: _webhook,
    StepKind.GO_TO: _go_to,
    StepKind.END: _end,
}


def wait_end(node: Node, since: Instant, zone: str | None, email_left_at: Instant | None) -> Instant:
    """Return when a wait ends that began at `since`. It counts from the minute in which the previous email left."""
    left_at = 0 if email_left_at is None else email_left_at // MINUTE * MINUTE
    if node.kind is StepKind.WAIT_UNTIL:
        # Count from the end of that minute, because otherwise the next email would leave together with the previous
        # one.
        begin = left_at + MINUTE if left_at > since else since
        # The result is equal for all times within a minute, so that a rehearsal can reuse it for many people.
        return _next_time(node.body.recurrence, zone or "UTC", -(-begin // MINUTE) * MINUTE)
    return max(since, left_at) + node.duration


def chosen_share(seed: str, node_id: str, percents: Sequence[int]) -> int:
    """Return which share of a split a person belongs to: always the same one."""
    digest = hashlib.blake2b(f"{seed}:{node_id}".encode(), digest_size=8).digest()
    point = int.from_bytes(digest, "big") * 100 >> 64
    for number, percent in enumerate(percents):
        point -= percent
        if point < 0:
            return number
    return len(percents) - 1


@lru_cache(maxsize=65_536)
def _next_time(recurrence: Recurrence, zone: str, since: Instant) -> Instant:
    return recurrence.next_from(since, zone_of(zone))


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone. An unknown name of a contact's zone counts as UTC."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def compile_program(definition: Definition) -> Program:
    """Compile a document. Raise InvalidSequence if a cycle has no wait of at least one hour."""
    program = Program(definition.list_key)
    compiler = _Compiler(program)
    if definition.entry is not None:
        program.entry = compiler.fact(definition.entry)
    stops = [(compiler.stop(each), EndReason.EXIT) for each in definition.exits]
    if definition.goal is not None:
        stops.append((compiler.stop(definition.goal), EndReason.GOAL))
    program.stops = tuple(stops)
    program.goal_window = definition.goal_days * DAY
    program.consent_window = definition.consent_days * DAY
    steps = list(definition.walk())
    for number, step in enumerate(steps):
        program.by_id[step.id] = number
    end = len(steps)
    program.by_id[""] = end
    program.nodes = [compiler.node(step) for step in steps]
    program.nodes.append(Node("", StepKind.END, None, next=end))
    compiler.link(definition.steps, end)
    _refuse_short_cycles(program)
    return program


class _Compiler:
    def __init__(self, program: Program) -> None:
        self._program = program

    def fact(self, condition: Mapping[str, Any] | EventFact) -> int:
        """Return the number of a condition. Equal conditions are one fact."""
        conditions = self._program.conditions
        for number, known in enumerate(conditions):
            if known == condition:
                return number
        conditions.append(condition)
        return len(conditions) - 1

    def stop(self, condition: StopCondition) -> int:
        if isinstance(condition, HappenedEvent):
            return self.fact(EventFact(_activity(condition), is_since_entry=True))
        return self.fact(condition)

    def node(self, step: SequenceStep) -> Node:
        conditions: tuple[int, ...] = ()
        duration: Instant = 0
        match step.kind:
            case StepKind.BRANCH:
                conditions = tuple(self.fact(each) for each in step.body)
            case StepKind.WAIT_FOR:
                wanted = step.body.filter
                if wanted is None:
                    wanted = EventFact(_activity(step.body), is_since_entry=False)
                conditions, duration = (self.fact(wanted),), step.body.timeout.milliseconds
            case StepKind.WAIT:
                duration = step.body.milliseconds
            case _:
                pass
        return Node(step.id, step.kind, step.body, conditions=conditions, duration=duration, where=step.where)

    def link(self, steps: Sequence[SequenceStep], after: int) -> None:
        """Set the next node of each step; `after` follows the last step."""
        by_id, nodes = self._program.by_id, self._program.nodes
        for number, step in enumerate(steps, 1):
            node = nodes[by_id[step.id]]
            node.next = by_id[steps[number].id] if number < len(steps) else after
            if step.kind is StepKind.GO_TO:
                node.next = by_id[step.body]
            node.paths = tuple(by_id[path[0].id] if path else node.next for path in step.paths)
            for path in step.paths:
                self.link(path, node.next)


def _activity(body: Any) -> EventActivity:
    """Return the event of a step, an exit or a goal. The document has checked its fields."""
    return EventActivity.model_construct(name=body.event, at_least=1, within_days=None, where=body.where)


def successors(node: Node) -> tuple[int, ...]:
    if node.kind is StepKind.END:
        return ()
    return node.paths or (node.next,)


def steps_ahead(program: Program, position: int) -> frozenset[int]:
    """Return the nodes that a person at a position may still pass, including the current one."""
    found: set[int] = set()
    pending = [position]
    while pending:
        if (number := pending.pop()) not in found:
            found.add(number)
            pending += successors(program.nodes[number])
    return frozenset(found)


def emails_sent_once(program: Program) -> frozenset[int]:
    """Return the email steps that are not in a cycle."""
    emails = [(number, node) for number, node in enumerate(program.nodes) if node.kind is StepKind.SEND]
    return frozenset(number for number, node in emails if number not in steps_ahead(program, node.next))


def _refuse_short_cycles(program: Program) -> None:
    """Find a cycle that has no wait of the minimum length, and return the names of its steps."""
    nodes = program.nodes
    is_break = [node.kind is StepKind.WAIT and node.duration >= SHORTEST_CYCLE_WAIT for node in nodes]
    finished: set[int] = set()
    for first in range(len(nodes)):
        trail: list[int] = []
        pending = [(first, iter(successors(nodes[first])))] if not is_break[first] and first not in finished else []
        trail += [first] if pending else []
        while pending:
            number, following = pending[-1]
            target = next((each for each in following if each not in finished and not is_break[each]), None)
            if target is None:
                finished.add(number)
                pending.pop()
                trail.pop()
            elif target in trail:
                ids = [nodes[each].id for each in trail[trail.index(target) :]]
                where = next(nodes[each].where for each in trail if nodes[each].kind is StepKind.GO_TO)
                message = lazy_gettext(
                    "the steps {ids} repeat without a wait of at least one hour; add one between them",
                    ids=", ".join(ids),
                )
                raise InvalidSequence([FieldError(where, "CYCLE", message)])
            else:
                trail.append(target)
                pending.append((target, iter(successors(nodes[target]))))


def closest_node(old: Program, position: int, new: Program) -> int | None:
    """Return the node of a new version for a person at a node of the old version: the same node, or the next one that
    still exists. None means that neither it nor any node after it exists.
    """
    seen: set[int] = set()
    while position not in seen and old.nodes[position].id:
        seen.add(position)
        if (found := new.by_id.get(old.nodes[position].id)) is not None:
            return found
        position = old.nodes[position].next
    return None
