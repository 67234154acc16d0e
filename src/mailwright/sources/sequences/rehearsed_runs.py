"""Run the steps of a rehearsal in order of time. A wait counts from the time when the simulation sends the email."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.sequences.program import ELIGIBLE, START, Node
from mailwright.sources.sequences.simulated_sending import (
    OLDER,
    RehearsedEmail,
    RehearsedRun,
    SendingConditions,
    SimulatedSending,
)
from mailwright.sources.sequences.simulation import Simulated, SimulatedSegment, Simulator

OnStep = Callable[[Simulated, Node, str, Instant], None]


@dataclass(slots=True, eq=False)
class Entrant:
    """A person who enters because of the trigger at certain times, unless they are in the sequence or its re-entry rule
    keeps them out.
    """

    person: Simulated
    times: Iterable[Instant]
    last_entered_at: Instant | None
    needs_eligibility: bool  # They enter only if they may receive the emails of the sequence.
    latest: RehearsedRun | None = None


class RehearsedRuns:
    """Runs everyone's steps and sends their emails, up to the end of the rehearsal."""

    def __init__(
        self, simulator: Simulator, conditions: SendingConditions, until: Instant, on_step: OnStep | None = None
    ) -> None:
        self._simulator = simulator
        self._sending = SimulatedSending(conditions, self._continue)
        self._until = until
        self._on_step = on_step
        self.runs: list[RehearsedRun] = []
        self.emails: list[RehearsedEmail] = []

    def begin(self, person: Simulated) -> RehearsedRun:
        run = RehearsedRun(person, self._simulator.begin(person))
        self.runs.append(run)
        unsent = person.unsent
        earlier = None if unsent is None else self._plan(run, unsent.step, unsent.due_at, OLDER, 0)
        self._add(run, run.segment, earlier)
        return run

    def finish(self, expected: Iterable[Entrant], reentry: int | None) -> None:
        """Enter people at their times, and send everything that can be sent until the end."""
        entering: dict[Instant, list[Entrant]] = {}
        for entrant in expected:
            for at in entrant.times:
                entering.setdefault(at, []).append(entrant)
        for at, entrants in sorted(entering.items()):
            self._sending.send(at)
            for entrant in entrants:
                self._enter(entrant, at, reentry)
        self._sending.finish(self._until)

    def _enter(self, entrant: Entrant, at: Instant, reentry: int | None) -> None:
        latest, last = entrant.latest, entrant.last_entered_at
        if latest is not None and (latest.end.end_reason is None or latest.end.due_at > at):
            return
        if last is not None and (reentry is None or last > at - reentry * DAY + DAY // 2):
            return
        person = entrant.person if latest is None else latest.end
        if entrant.needs_eligibility and not person.leaves[ELIGIBLE]:
            return
        entrant.latest = self.begin(
            replace(
                entrant.person,
                node=START,
                entered_at=at,
                waits_since=None,
                due_at=at,
                leaves=person.leaves,
                variables=person.variables,
            )
        )
        if entrant.latest.counts_for_re_entry:
            entrant.last_entered_at = at

    def _continue(self, email: RehearsedEmail, left_at: Instant) -> None:
        run = email.run
        run.segment = self._simulator.resume(run.segment, left_at)
        self._add(run, run.segment, None)

    def _add(self, run: RehearsedRun, segment: SimulatedSegment, earlier: RehearsedEmail | None) -> None:
        """Plan the emails of a segment of steps. The run waits for the last one, or for an earlier one."""
        latest = earlier
        for step in segment.emails:
            email = self._plan(run, step.node.id, step.at, step.at, step.round, is_for_team=not step.is_email)
            latest = latest if email.is_for_team else email
        if latest is not None:
            latest.is_awaited = segment.awaits_email
        if self._on_step is not None:
            for step in segment.steps:
                self._on_step(run.person, step.node, step.outcome, step.at)

    def _plan(
        self,
        run: RehearsedRun,
        step: str,
        due_at: Instant,
        accepted_at: Instant,
        round_: int,
        *,
        is_for_team: bool = False,
    ) -> RehearsedEmail:
        order = (accepted_at, round_, run.person.contact_key, len(self.emails))
        email = RehearsedEmail(run, step, due_at, order, is_for_team)
        self._sending.plan(email, due_at)
        if not is_for_team:
            self.emails.append(email)
        return email
