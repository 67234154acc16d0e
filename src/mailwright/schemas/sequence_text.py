"""Sentences about a person's runs through sequences. Explanations are data, and only this module renders them."""

from datetime import UTC, tzinfo
from typing import Any, Final

from mailwright.audience.contact_events import LATE_AFTER
from mailwright.audience.contact_fields import as_text
from mailwright.domain.clock import Instant
from mailwright.schemas.explanation_text import limit_name, message_text
from mailwright.schemas.filter_text import describe, describe_property
from mailwright.schemas.time_text import count_text, duration, time_text
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.entry_rules import EntryRule, NotEntered
from mailwright.sources.sequences.explain import RunExplanation, RunState, StepRecord, UnmatchedCondition
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
    "confirmation_required": "this list requires confirmation",
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
    """Return why a person is where they are, what comes next and when, or which rule keeps them out."""
    if run.state is RunState.NEVER_ENTERED:
        return _never_entered(run, now, zone)
    entered = "" if run.entered_at is None else f"Entered at {time_text(run.entered_at, now, zone)}"
    sentences = [f"{entered} because of: {run.entered_because}.", _state(run, now, zone)]
    unsent = [f"The email {each.node}: {message_text(each.email, zone).sentence}" for each in run.steps if each.email]
    sentences += unsent[-1:]
    if run.ignored:
        last = time_text(run.ignored[0].received_at, now, zone)
        sentences.append(
            f"{count_text(len(run.ignored), 'more event')} {run.ignored[0].name} came while they were in it, the last "
            f"at {last}. Nobody is in a sequence twice at the same time, so this started nothing."
        )
    if run.not_entered is not None:
        sentences.append(entry_rule_text(run.not_entered, now, zone))
    return " ".join(sentences)


def step_text(step: StepRecord, zone: tzinfo = UTC) -> str:
    """Return what happened at a step, and why its email is not sent."""
    done, *left_out = step.outcome.split("; ")
    outcome = _OUTCOMES.get(done, done)
    for each in left_out:  # Lists to which a change did not subscribe the person, with the reasons.
        list_key, reason = each.split(": ")
        outcome += f", not subscribed to {list_key}: {_EXCLUSIONS[reason]}"
    if step.email is not None:
        return f"{outcome}, {step.message_status}: {message_text(step.email, zone).sentence}"
    return outcome if step.message_status is None else f"{outcome}, {step.message_status}"


def entry_rule_text(rule: NotEntered, now: Instant, zone: tzinfo = UTC) -> str:
    """Return which rule keeps a person out of a sequence, or what makes them enter it."""
    at = "an unknown time" if rule.at is None else time_text(rule.at, now, zone)
    if rule.reported_at is not None:
        return f"Their latest event {rule.subject} is of {at}. {_event_rule(rule, now, zone)}"
    if rule.rule is EntryRule.RE_ENTRY:
        return _re_entry(rule, now, zone)
    return _ENTRY_RULES[rule.rule].format(
        subject=rule.subject, group=_GROUPS.get(rule.trigger, "group"), at=at, value=_value(rule.value)
    )


def _event_rule(rule: NotEntered, now: Instant, zone: tzinfo) -> str:
    match rule.rule:
        case EntryRule.LATE_EVENT:
            late = duration((rule.reported_at or 0) - (rule.at or 0))
            return (
                f"It arrived {late} after it happened. Events that arrive more than {duration(LATE_AFTER)} late are "
                "history and start nothing."
            )
        case EntryRule.OTHER_PROPERTY if rule.property is not None and rule.wanted is not None:
            wanted = describe_property(rule.property, rule.wanted)
            return f"Its {rule.property} is {_value(rule.value)}; the sequence starts only if {wanted}."
        case EntryRule.ALREADY_IN:
            return f"They were in the sequence then, so it started nothing. {_re_entry(rule, now, zone)}"
        case EntryRule.RE_ENTRY:
            return f"It started nothing. {_re_entry(rule, now, zone)}"
        case _:
            return _ENTRY_RULES[rule.rule].format(at="that time")


def _re_entry(rule: NotEntered, now: Instant, zone: tzinfo) -> str:
    if rule.again_at is None:
        return "Nobody enters this sequence twice; its re-entry rule is never."
    return f"Its re-entry rule lets them enter again from {time_text(rule.again_at, now, zone)}."


def _value(value: Any) -> str:
    if value is None:
        return "not known"
    return f"“{value}”" if isinstance(value, str) else as_text(value)


_GROUPS: Final = {
    TriggerKind.ENTERS_SEGMENT: "are in the segment",
    TriggerKind.LEAVES_SEGMENT: "left the segment",
    TriggerKind.OPENS: "opened the campaign",
    TriggerKind.CLICKS: "clicked in the campaign",
}
_ENTRY_RULES: Final = {
    EntryRule.MANUAL_ONLY: "Only people who are enrolled by hand or through the API enter it.",
    EntryRule.NOT_READ_YET: "A worker applies the trigger within a minute if one runs.",
    EntryRule.NOT_RUNNING: "The sequence did not run then.",
    EntryRule.BEFORE_PUBLICATION: "That was before the trigger was published, and starts nothing.",
    EntryRule.NO_EVENT: "They do not have the event {subject}, which starts it.",
    EntryRule.NOT_A_CONTACT: "They were not a contact then.",
    EntryRule.NOT_ON_LIST: "They have not joined the list {subject}, which starts it.",
    EntryRule.LEFT_LIST: "They left the list {subject}, which starts it, at {at}.",
    EntryRule.NOT_CONFIRMED: "They have not confirmed their subscription to the list {subject} of {at}.",
    EntryRule.JOINED_BEFORE: (
        "They joined the list {subject} at {at}, before it was published. It starts for people who join later."
    ),
    EntryRule.JOINED_BY_IMPORT: "They joined the list {subject} at {at} without starting sequences, as imports do.",
    EntryRule.NO_MATCH: "It starts for people who {group} {subject}, and they do not match that now.",
    EntryRule.MATCHED_BEFORE: (
        "They matched its trigger already when it was published at {at}. It starts for people who match later."
    ),
    EntryRule.STILL_IN_SEGMENT: "They are still in the segment {subject}, and enter when they leave it.",
    EntryRule.NEVER_IN_SEGMENT: (
        "They were not in the segment {subject} since it was published, so they cannot leave it."
    ),
    EntryRule.NO_DATE: "Their attribute {subject} is {value}, which is not a date such as 2027-01-20.",
    EntryRule.DATE_AHEAD: "Their date {subject} is {value}. They enter at {at}.",
    EntryRule.DATE_OVER: "Their date {subject} is {value}, so they would have entered at {at}.",
    EntryRule.NOT_IN_GROUP: "They do not belong to {subject}, whose members enter.",
    EntryRule.NEXT_SCHEDULE: "They enter with the next scheduled time, {at}.",
    EntryRule.NEXT_ITEM: "They enter with the next new item of the feed.",
}


def end_reason_text(reason: str | None) -> str:
    """Return why a run ended, as part of a sentence."""
    return _END_REASONS.get(reason or "removed", str(reason))


def _never_entered(run: RunExplanation, now: Instant, zone: tzinfo) -> str:
    sentences = ["They have not entered this sequence."]
    if run.status is SequenceStatus.DRAFT:
        sentences.append("It is a draft; nobody enters before it is published.")
    elif run.status is SequenceStatus.ARCHIVED:
        sentences.append("It is archived; nobody enters it any more.")
    elif run.not_entered is not None:
        sentences.append(entry_rule_text(run.not_entered, now, zone))
    if run.excluded_because is not None:
        sentences.append(f"They could not receive its emails: {_EXCLUSIONS[run.excluded_because]}.")
    return " ".join(sentences)


def _why_ended(run: RunExplanation) -> str:
    if run.excluded_because is not None:
        return f"they may not receive its emails: {_EXCLUSIONS[run.excluded_because]}"
    reason = end_reason_text(run.end_reason)
    if not run.unmatched:
        return reason
    return f"{reason}, which is for {'; '.join(_unmatched(each) for each in run.unmatched)}"


def _unmatched(part: UnmatchedCondition) -> str:
    wanted = describe(part.condition).rstrip(".").removeprefix("Contacts ")
    attribute = part.condition.get("attribute")
    return f"contacts {wanted}" + (f" (theirs is {_value(part.value)})" if attribute is not None else "")


def _state(run: RunExplanation, now: Instant, zone: tzinfo) -> str:
    step = run.node or "(start)"
    following = "" if run.next_kind is None else " " + _NEXT[run.next_kind].format(step=run.next_node)
    until = "an unknown time" if run.next_at is None else time_text(run.next_at, now, zone)
    match run.state:
        case RunState.ENDED:
            at = "an unknown time" if run.ended_at is None else time_text(run.ended_at, now, zone)
            return f"It ended at {at} because {_why_ended(run)}."
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
    """Return sentences about the steps of a rehearsal that fail and the emails that are not sent."""
    found = []
    for each in rehearsal.failed_steps:
        people = f"{each.people:,} {'person' if each.people == 1 else 'people'}"
        found.append(f"The step {each.step} would fail for {people}. {each.reason}")
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
