"""Sentences about a person's runs through sequences. Explanations are data, and only this module renders them."""

from datetime import UTC, tzinfo
from typing import Final

from mailwright.domain.clock import Instant
from mailwright.schemas.explanation_text import limit_name
from mailwright.schemas.time_text import time_text
from mailwright.sources.sequences.explain import RunExplanation, RunState, StepRecord
from mailwright.sources.sequences.records import SequenceStatus
from mailwright.sources.sequences.rehearsal import DeferredEmails, Rehearsal

_END_REASONS: Final = {
    "finished": "they reached its end",
    "goal": "they reached its goal",
    "exit": "they matched an exit condition or had its event",
    "entry": "they did not match its entry filter",
    "unsubscribed": "they unsubscribed",
    "not_eligible": "they may not receive its emails (no subscription, or suppressed)",
    "bounced": "their address bounced",
    "complaint": "they complained",
    "suppressed": "their address was suppressed",
    "erased": "their data was erased",
    "removed": "they, their step or the sequence was removed",
}
_EXCLUSIONS: Final = {
    "bounced": "their address bounced",
    "unsubscribed": "they unsubscribed",
    "suppressed": "their address is suppressed",
    "unconfirmed": "they have not confirmed their subscription",
    "not_subscribed": "they are not subscribed to its list",
}
_NEXT: Final = {
    "send": "The email {step} is next.",
    "wait": "The wait {step} is next.",
    "waitUntil": "The wait {step} is next.",
    "waitFor": "The wait {step} is next.",
    "branch": "The branch {step} decides what is next.",
    "split": "The split {step} decides what is next.",
    "change": "The change {step} is next.",
    "notify": "The notification {step} is next.",
    "webhook": "The webhook request {step} is next.",
    "goTo": "It continues as the step {step} says.",
    "end": "Then the sequence ends.",
}
_OUTCOMES: Final = {
    "sent": "email written",
    "skipped": "email left out",
    "already_received": "email left out, already received",
    "changed": "contact changed",
    "notified": "team notified",
    "posted": "webhook requested",
}


def run_text(run: RunExplanation, now: Instant, zone: tzinfo = UTC) -> str:
    """Return why a person is where they are, what comes next and when."""
    if run.state is RunState.NEVER_ENTERED:
        return _never_entered(run)
    entered = "" if run.entered_at is None else f"Entered at {time_text(run.entered_at, now, zone)}"
    began = f"{entered} because of: {run.entered_because}."
    return f"{began} {_state(run, now, zone)}"


def step_text(step: StepRecord) -> str:
    """Return what happened at a step."""
    done, *left_out = step.outcome.split("; ")
    outcome = _OUTCOMES.get(done, done)
    for each in left_out:  # Lists to which a change did not subscribe the person, with the reasons.
        list_key, reason = each.split(": ")
        outcome += f", not subscribed to {list_key}: {_EXCLUSIONS[reason]}"
    return outcome if step.message_status is None else f"{outcome}, {step.message_status}"


def end_reason_text(reason: str | None) -> str:
    """Return why a run ended, as part of a sentence."""
    return _END_REASONS.get(reason or "removed", str(reason))


def _never_entered(run: RunExplanation) -> str:
    sentences = ["They have not entered this sequence."]
    if run.status is SequenceStatus.DRAFT:
        sentences.append("It is a draft; nobody enters before it is published.")
    elif run.status is SequenceStatus.ARCHIVED:
        sentences.append("It is archived; nobody enters it any more.")
    elif run.excluded_because is None:
        sentences.append("Its trigger has not applied to them since it was published. You can enrol them by hand.")
    if run.excluded_because is not None:
        sentences.append(f"They could not receive its emails: {_EXCLUSIONS[run.excluded_because]}.")
    return " ".join(sentences)


def _state(run: RunExplanation, now: Instant, zone: tzinfo) -> str:
    step = run.node or "(start)"
    following = "" if run.next_kind is None else " " + _NEXT[run.next_kind].format(step=run.next_node)
    until = "an unknown time" if run.next_at is None else time_text(run.next_at, now, zone)
    match run.state:
        case RunState.ENDED:
            at = "an unknown time" if run.ended_at is None else time_text(run.ended_at, now, zone)
            return f"It ended at {at} because {end_reason_text(run.end_reason)}."
        case RunState.FAILED:
            return f"The step {step} failed: {run.failure} Retry or skip it."
        case RunState.PAUSED:
            return f"The sequence is paused; they keep their place at {step}, due at {until}.{following}"
        case RunState.WAITS_FOR_FILTER:
            return f"They wait at {step} for its filter or event, at the latest until {until}."
        case RunState.WAITS:
            return f"They wait at {step} until {until}.{following}"
        case _:
            return f"The step {step} is due now and runs within seconds if a worker runs.{following}"


def deferred_text(deferred: DeferredEmails) -> str:
    """Return how many emails of a step a limit holds: `working hours: hello 3`."""
    failed = f", {deferred.failed} fail" if deferred.failed else ""
    return f"{limit_name(deferred.reason)}: {deferred.step} {deferred.emails}{failed}"


def unsent_texts(rehearsal: Rehearsal) -> list[str]:
    """Return sentences about the emails of a rehearsal that are not sent."""
    found = []
    if rehearsal.failed:
        found.append(
            f"{_emails(rehearsal.failed)} would never be sent: the frequency cap or a pause by the recipient would "
            "hold them until after their lifetime. Use longer waits or raise the cap."
        )
    if rehearsal.cancelled:
        found.append(
            f"{_emails(rehearsal.cancelled)} would be cancelled: the person would leave the sequence before a limit "
            "lets the email pass."
        )
    if rehearsal.waiting:
        found.append(f"{_emails(rehearsal.waiting)} would still wait at the end.")
    return found


def _emails(number: int) -> str:
    return f"{number:,} {'email' if number == 1 else 'emails'}"
