"""Simulate people in a sequence on a virtual clock, with the same `advance` that workers run.

What a step changes is a fact for the steps after it. Everything else stays as it was when the simulation began: nobody
opens, buys or unsubscribes meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mailwright.audience import filters
from mailwright.audience.filters import AttributeCondition, FilterCondition
from mailwright.audience.value_matching import value_matches
from mailwright.domain.clock import Instant
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.program import (
    ALREADY_RECEIVED,
    ELIGIBLE,
    EndReason,
    EventFact,
    Node,
    Program,
    StepAction,
    advance,
)

# A person takes at most this many steps, in case a sequence has a short cycle.
MAX_STEPS: Final = 10_000

Evaluate = Callable[[Sequence[bool]], bool]
OnStep = Callable[["Simulated", Node, str, Instant], None]


@dataclass(slots=True)
class Simulated:
    """A person in a simulation. `leaves` says which single conditions of the program's filters hold for them."""

    contact_key: int
    email: str
    snoozed_until: Instant | None
    seed: str
    zone: str | None
    node: int
    waits_since: Instant | None
    due_at: Instant  # When the next step is due, or when the run ended.
    leaves: list[bool]
    received: frozenset[str] = frozenset()  # Email steps that are left out, because the person received them before.
    end_reason: str | None = None


def ignore_step(_person: Simulated, _node: Node, _outcome: str, _at: Instant) -> None:
    """Do nothing with a step."""


@dataclass(slots=True)
class FactModel:
    """The single conditions that the filters of a program consist of, and how change steps affect them."""

    conditions: list[FilterCondition | None] = field(default_factory=lambda: [None])  # The first is `ELIGIBLE`.
    facts: list[Evaluate] = field(default_factory=list)
    effects: dict[int, dict[int, bool]] = field(default_factory=dict)  # By node: the leaves that a change decides.

    def evaluate(self, leaves: Sequence[bool]) -> list[bool]:
        return [fact(leaves) for fact in self.facts]


def make_model(program: Program) -> FactModel:
    """Take the filters of a program apart."""
    model = FactModel()
    model.facts.append(lambda leaves: leaves[ELIGIBLE])
    for given in program.conditions[1:]:
        is_event = isinstance(given, EventFact)
        model.facts.append(_never if is_event else _compile(filters.parse(given), model.conditions))
    for number, node in enumerate(program.nodes):
        if node.kind is StepKind.CHANGE:
            model.effects[number] = {
                leaf: effect
                for leaf, condition in enumerate(model.conditions)
                if condition is not None and (effect := _effect(node.body, condition)) is not None
            }
    return model


def _never(_leaves: Sequence[bool]) -> bool:
    """An event does not happen in a simulation."""
    return False


def simulate(program: Program, model: FactModel, person: Simulated, until: Instant, on_step: OnStep) -> None:
    """Run a person's steps up to a time. `on_step` gets each recorded step with its outcome and time."""
    now = person.due_at
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
            now = decision.until
            continue
        if action is not StepAction.MOVE:
            node = program.nodes[person.node]
            outcome = ALREADY_RECEIVED if node.id in person.received else decision.outcome or _OUTCOMES[action]
            on_step(person, node, outcome, now)
            if action is StepAction.CHANGE:
                facts = _changed(program, model, person)
                if person.end_reason is not None:
                    break
        person.node, person.waits_since = decision.next, None
    person.due_at = now


_OUTCOMES: Final = {
    StepAction.SEND: "sent",
    StepAction.CHANGE: "changed",
    StepAction.NOTIFY: "notified",
    StepAction.POST: "posted",
}


def _changed(program: Program, model: FactModel, person: Simulated) -> list[bool]:
    """Apply a change step to a person's facts. An unsubscribe from the sequence's own list ends it."""
    for leaf, effect in model.effects[person.node].items():
        person.leaves[leaf] = effect
    left = program.nodes[person.node].body.unsubscribe
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
            return _decided(list_key, change.subscribe, change.unsubscribe)
        case AttributeCondition(attribute=name) if name in change.attributes:
            return value_matches(condition, change.attributes[name])
        case _:
            return None


def _decided(name: str, added: Iterable[str], removed: Iterable[str]) -> bool | None:
    return True if name in added else False if name in removed else None
