"""Simulate people in a sequence on a virtual clock, with the same `advance` that workers run.

Later steps see the changes that a step makes. Everything else stays as it was when the simulation began: nobody opens,
buys or unsubscribes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, NamedTuple

from mailwright.audience import filters
from mailwright.audience.filters import AttributeCondition, FilterCondition
from mailwright.audience.value_matching import value_matches
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import best
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.emails import lacks_variables
from mailwright.sources.sequences.program import (
    ALREADY_RECEIVED,
    ELIGIBLE,
    LACKS_CONSENT,
    EndReason,
    EventFact,
    Node,
    Program,
    StepAction,
    advance,
    chosen_share,
    wait_end,
)

# A person takes at most this many steps, in case a sequence has a short cycle.
MAX_STEPS: Final = 10_000
# The maximum number of situations in the cache. If everyone's situation is different, the cache saves nothing.
MAX_SITUATIONS: Final = 50_000

Evaluate = Callable[[Sequence[bool]], bool]


class UnsentEmail(NamedTuple):
    step: str
    due_at: Instant


@dataclass(slots=True)
class Simulated:
    """A person in a simulation. `leaves` lists which single conditions of the program's filters are true for them."""

    contact_key: int
    email: str
    snoozed_until: Instant | None
    seed: str
    zone: str | None
    node: int
    entered_at: Instant
    waits_since: Instant | None
    due_at: Instant  # When the next step is due, or when the run ended.
    leaves: list[bool]
    received: frozenset[str] = frozenset()  # Email steps that are skipped, because the person already received them.
    locale: str | None = None
    variables: set[str] = field(default_factory=set)  # The names of attributes, and of the variable of the trigger.
    failure: str | None = None
    step: str = ""  # The step that failed.
    end_reason: str | None = None
    email_left_at: Instant | None = None
    is_email_unsent: bool = False  # A wait then ends the segment.
    unsent: UnsentEmail | None = None  # An email that was in the outbox when the simulation began.


class SimulatedStep(NamedTuple):
    """A step that a worker would record."""

    node: Node
    outcome: str
    at: Instant
    round: int  # A worker takes people one node further in each round, and accepts their emails in this order.

    @property
    def is_email(self) -> bool:
        return self.node.kind is StepKind.SEND and self.outcome != ALREADY_RECEIVED

    @property
    def is_for_team(self) -> bool:
        return self.node.kind is StepKind.NOTIFY


@dataclass(frozen=True, slots=True)
class SimulatedSegment:
    """Steps up to a wait that counts from when an email leaves, or up to the end. Many people share a segment."""

    steps: Sequence[SimulatedStep]
    end: Simulated  # Where people are after these steps.
    emails: Sequence[SimulatedStep]  # To the person and to the team.
    following: dict[int, "SimulatedSegment"] = field(default_factory=dict)  # By the minute in which the email left.

    @property
    def awaits_email(self) -> bool:
        return self.end.is_email_unsent and self.end.end_reason is None and self.end.failure is None


@dataclass(slots=True)
class FactModel:
    """The single conditions that the filters of a program consist of, and how change steps affect them."""

    # The first are `ELIGIBLE` and `LACKS_CONSENT`.
    conditions: list[FilterCondition | None] = field(default_factory=lambda: [None, None])
    facts: list[Evaluate] = field(default_factory=list)
    effects: dict[int, dict[int, bool]] = field(default_factory=dict)  # By node: the leaves that a change decides.
    # Lists that a change step subscribes people to. Each has a leaf that says whether the person can be subscribed,
    # and these leaves follow those of the filters.
    subscribed: list[str] = field(default_factory=list)
    # Lists that a change unsubscribes from, if the sequence has no list of its own. The last leaves say on which bases
    # the person receives bulk email: each of these lists, any other list, and a legal basis.
    left: list[str] = field(default_factory=list)
    bases: range = range(0)
    # By node and list: the leaves that become true if the person can be subscribed.
    subscriptions: dict[int, dict[int, list[int]]] = field(default_factory=dict)
    # By node and locale: the variables that an email needs, if it needs any.
    required: Mapping[int, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def evaluate(self, leaves: Sequence[bool]) -> list[bool]:
        return [fact(leaves) for fact in self.facts]


def make_model(program: Program, required: Mapping[int, Mapping[str, frozenset[str]]]) -> FactModel:
    """Take the filters of a program apart."""
    model = FactModel(required=required)
    model.facts += [lambda leaves: leaves[ELIGIBLE], lambda leaves: leaves[LACKS_CONSENT]]
    for given in program.conditions[2:]:
        is_event = isinstance(given, EventFact)
        model.facts.append(_never if is_event else _compile(filters.parse(given), model.conditions))
    changes = {number: node.body for number, node in enumerate(program.nodes) if node.kind is StepKind.CHANGE}
    model.subscribed = sorted({key for body in changes.values() for key in body.subscribe})
    can_subscribe = {key: len(model.conditions) + number for number, key in enumerate(model.subscribed)}
    if program.list_key is None:
        model.left = sorted({key for body in changes.values() for key in body.unsubscribe} - {GENERAL})
    first = len(model.conditions) + len(model.subscribed)
    model.bases = range(first, first + len(model.left) + 2) if model.left else range(0)
    for number, body in changes.items():
        effects = {
            leaf: effect
            for leaf, condition in enumerate(model.conditions)
            if condition is not None and (effect := _effect(body, condition)) is not None
        }
        # Nobody is subscribed again after an unsubscribe.
        effects |= {can_subscribe[key]: False for key in body.unsubscribe if key in can_subscribe}
        if model.left and body.unsubscribe:
            ended = [_basis(model, key) for key in body.unsubscribe if key in model.left]
            effects |= dict.fromkeys([*ended, model.bases[-1], LACKS_CONSENT], False)
        model.effects[number] = effects
        model.subscriptions[number] = {
            can_subscribe[key]: _leaves_of_list(model, key, program.list_key) for key in body.subscribe
        }
    return model


def _leaves_of_list(model: FactModel, list_key: str, own_list: str | None) -> list[int]:
    """Return the leaves that become true with a subscription: filters on the list, and that the person may receive
    emails.
    """
    found = [leaf for leaf, each in enumerate(model.conditions) if each == filters.OnList(list=list_key)]
    found += [_basis(model, list_key)] if model.left else []
    return [*found, ELIGIBLE] if own_list in (None, list_key) else found


def _basis(model: FactModel, list_key: str) -> int:
    """Return the leaf for the fact that a subscription to the list allows bulk email to the person."""
    return model.bases[model.left.index(list_key) if list_key in model.left else -2]


def _never(_leaves: Sequence[bool]) -> bool:
    """Return false, because events do not happen in a simulation."""
    return False


class Simulator:
    """Runs people's steps up to a time. Steps of people in the same situation are the same, so they run only once."""

    def __init__(self, program: Program, model: FactModel, until: Instant) -> None:
        self._program = program
        self._model = model
        self._until = until
        self._splits = [node for node in program.nodes if node.kind is StepKind.SPLIT]
        self._known: dict[tuple[Any, ...], SimulatedSegment] = {}
        self._remembered = 0

    def begin(self, person: Simulated) -> SimulatedSegment:
        """Return the first steps of a person. The person object is not changed."""
        situation = self._situation(person)
        if (found := self._known.get(situation)) is None:
            found = self._simulate(_copy(person))
            if self._has_room():
                self._known[situation] = found
        return found

    def resume(self, segment: SimulatedSegment, left_at: Instant) -> SimulatedSegment:
        """Return the steps after a segment that awaited an email, which left at a time."""
        minute = left_at // MINUTE
        if (found := segment.following.get(minute)) is None:
            person = _copy(segment.end)
            person.is_email_unsent, person.email_left_at = False, left_at
            since = person.due_at if person.waits_since is None else person.waits_since
            person.due_at = wait_end(self._program.nodes[person.node], since, person.zone, left_at)
            found = self._simulate(person)
            if self._has_room():
                segment.following[minute] = found
        return found

    def _has_room(self) -> bool:
        self._remembered += 1
        return self._remembered <= MAX_SITUATIONS

    def _simulate(self, person: Simulated) -> SimulatedSegment:
        steps = simulate(self._program, self._model, person, self._until)
        return SimulatedSegment(steps, person, [step for step in steps if step.is_email or step.is_for_team])

    def _situation(self, person: Simulated) -> tuple[Any, ...]:
        """Return everything that the steps of a person depend on."""
        return (
            person.node,
            person.waits_since,
            person.due_at,
            person.email_left_at,
            person.is_email_unsent,
            person.zone,
            person.received,
            person.locale,
            *person.leaves,
            person.entered_at if person.leaves[LACKS_CONSENT] else None,
            frozenset(person.variables),
            *(chosen_share(person.seed, node.id, node.body) for node in self._splits),
        )


def _copy(person: Simulated) -> Simulated:
    return replace(person, leaves=list(person.leaves), variables=set(person.variables))


def simulate(program: Program, model: FactModel, person: Simulated, until: Instant) -> list[SimulatedStep]:
    """Run a person's steps up to a time or to a wait for an unsent email, and return those that are recorded."""
    steps: list[SimulatedStep] = []
    now, round_ = person.due_at, 0
    facts = model.evaluate(person.leaves)
    for _ in range(MAX_STEPS):
        if now > until:
            break
        decision = advance(program, person, facts, now)
        action = decision.action
        if action is StepAction.END:
            person.end_reason = decision.outcome
            break
        if action is StepAction.WAIT:
            if person.waits_since is None:
                person.waits_since = now
            if person.is_email_unsent:
                break
            now, round_ = decision.until, 0
            continue
        if action is not StepAction.MOVE:
            node = program.nodes[person.node]
            if person.node in model.required and (lacking := _lacking(model, node, person)):
                person.step, person.failure = node.id, lacks_variables(node, lacking).reason
                break
            outcome = ALREADY_RECEIVED if node.id in person.received else decision.outcome or _OUTCOMES[action]
            steps.append(step := SimulatedStep(node, outcome, now, round_))
            person.is_email_unsent = person.is_email_unsent or step.is_email
            if action is StepAction.CHANGE:
                facts = _changed(program, model, person)
                if person.end_reason is not None:
                    break
        person.node, person.waits_since = decision.next, None
        round_ += 1
    person.due_at = now
    return steps


_OUTCOMES: Final = {
    StepAction.SEND: "sent",
    StepAction.CHANGE: "changed",
    StepAction.NOTIFY: "notified",
    StepAction.POST: "posted",
}


def _lacking(model: FactModel, node: Node, person: Simulated) -> frozenset[str]:
    """Return the variables that the email of a step needs and the person does not have."""
    if node.id in person.received:
        return frozenset()
    return best(model.required[person.node], person.locale) - person.variables


def _changed(program: Program, model: FactModel, person: Simulated) -> list[bool]:
    """Apply a change step to a person's facts. An unsubscribe from the sequence's own list ends it."""
    for leaf, effect in model.effects[person.node].items():
        person.leaves[leaf] = effect
    for can_subscribe, leaves in model.subscriptions[person.node].items():
        if person.leaves[can_subscribe]:
            for leaf in leaves:
                person.leaves[leaf] = True
    if model.bases:
        person.leaves[ELIGIBLE] &= any(person.leaves[leaf] for leaf in model.bases)
    body = program.nodes[person.node].body
    for name, value in body.attributes.items():
        (person.variables.discard if value is None else person.variables.add)(name)
    left = body.unsubscribe
    if GENERAL in left or (program.list_key is not None and program.list_key in left):
        person.end_reason = EndReason.UNSUBSCRIBED
    return model.evaluate(person.leaves)


def _compile(condition: FilterCondition, known: list[FilterCondition | None]) -> Evaluate:
    """Return a function of the leaves, and add the leaves of the filter to the known ones."""
    match condition:
        case filters.AllOf(all=parts):
            inner = [_compile(part, known) for part in parts]
            return lambda leaves: all(each(leaves) for each in inner)
        case filters.AnyOf(any=parts):
            inner = [_compile(part, known) for part in parts]
            return lambda leaves: any(each(leaves) for each in inner)
        case filters.Not(not_=part):
            negated = _compile(part, known)
            return lambda leaves: not negated(leaves)
        case _:
            if condition not in known:
                known.append(condition)
            number = known.index(condition)
            return lambda leaves: leaves[number]


def _effect(change: Any, condition: FilterCondition) -> bool | None:
    """Return whether a condition holds after a change; None if the change does not decide that."""
    match condition:
        case filters.HasTag(tag=tag):
            return _decided(tag, change.add_tags, change.remove_tags)
        case filters.OnList(list=list_key):
            return _decided(list_key, (), change.unsubscribe)  # A subscription depends on the person.
        case AttributeCondition(attribute=name) if name in change.attributes:
            return value_matches(condition, change.attributes[name])
        case _:
            return None


def _decided(name: str, added: Iterable[str], removed: Iterable[str]) -> bool | None:
    return True if name in added else False if name in removed else None
