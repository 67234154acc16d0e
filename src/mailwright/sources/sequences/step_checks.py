"""Check the steps of a sequence before publication: steps that never run, and emails that limits or lists prevent."""

from collections.abc import Iterator
from heapq import heappop, heappush

from sqlalchemy import select

from mailwright.domain.clock import HOUR, Instant
from mailwright.domain.frequency import FrequencyCap
from mailwright.sources.sequences.content_checks import PublishWarning
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.program import Program, steps_ahead, successors
from mailwright.storage.database import Transaction
from mailwright.storage.tables import lists


async def check_steps(
    tx: Transaction, tenant_id: int, program: Program, cap: FrequencyCap | None, lifetime: Instant
) -> tuple[PublishWarning, ...]:
    """Return warnings about single steps, in the order of the document."""
    confirmed = (lists.c.tenant_id == tenant_id, lists.c.requires_confirmation.is_(True))
    strict = {row.list_key for row in await tx.execute(select(lists.c.list_key).where(*confirmed))}
    reached = steps_ahead(program, 0)
    late = {} if cap is None else emails_held_by_cap(program, cap, lifetime)
    found = []
    for number, node in enumerate(program.nodes):
        if node.id and number not in reached:
            sentence = "No path leads to this step, so it never runs. Move it or delete it."
            found.append(_warning(node.id, "UNREACHABLE_STEP", sentence))
        for list_key in sorted(strict.intersection(node.body.subscribe if node.kind is StepKind.CHANGE else ())):
            sentence = f"The list {list_key} requires confirmation, so nobody is subscribed. Send a link to a form."
            found.append(_warning(node.id, "CONFIRMATION_REQUIRED", sentence))
        if cap is not None and number in late:
            sentence = (
                f"The frequency cap ({cap.limit} per {cap.days} days) can hold this email for {late[number] // HOUR} "
                f"hours after the emails before it. It is not sent after {lifetime // HOUR} hours. Use longer waits."
            )
            found.append(_warning(node.id, "FREQUENCY_CAP", sentence))
    return tuple(found)


def emails_held_by_cap(program: Program, cap: FrequencyCap, lifetime: Instant) -> dict[int, Instant]:
    """Return the emails that a cap can hold for longer than their lifetime, because of the emails before them.

    The value is how long the cap can hold the email. The search finds the shortest time since the nth previous email,
    over all paths.
    """
    shortest: dict[tuple[int, int], Instant] = {}
    pending: list[tuple[Instant, int, int]] = []
    for number in steps_ahead(program, 0):
        if program.nodes[number].kind is StepKind.SEND:
            heappush(pending, (0, program.nodes[number].next, 1))
    while pending:
        passed, number, emails = heappop(pending)
        if passed >= cap.window - lifetime or emails > cap.limit or (number, emails) in shortest:
            continue
        shortest[number, emails] = passed
        for following, added, sent in _onwards(program, number):
            heappush(pending, (passed + added, following, emails + sent))
    return {
        number: cap.window - passed
        for (number, emails), passed in shortest.items()
        if emails == cap.limit and program.nodes[number].kind is StepKind.SEND
    }


def _onwards(program: Program, number: int) -> Iterator[tuple[int, Instant, int]]:
    """Return the steps that can follow a step, the shortest time until each, and the number of emails that the step
    sends.
    """
    node = program.nodes[number]
    added = node.duration if node.kind is StepKind.WAIT else 0
    for following in successors(node):
        yield following, added, int(node.kind is StepKind.SEND)


def _warning(step: str, code: str, sentence: str) -> PublishWarning:
    return PublishWarning(step, None, "", code, sentence)
