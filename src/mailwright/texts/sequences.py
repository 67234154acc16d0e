"""Sentences about a person's runs through sequences. Explanations are data, and only this module renders them."""

from datetime import UTC, tzinfo
from typing import Any, Final

from mailwright.audience.contact_events import LATE_AFTER
from mailwright.audience.contact_fields import as_text
from mailwright.domain.clock import Instant
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.entry_rules import EntryRule, NotEntered
from mailwright.sources.sequences.explain import RunExplanation, RunState, StepRecord, UnmatchedCondition
from mailwright.sources.sequences.records import SequenceStatus
from mailwright.sources.sequences.rehearsal import DeferredEmails, Rehearsal
from mailwright.texts.explanations import limit_name, message_text
from mailwright.texts.filters import describe, describe_property
from mailwright.texts.times import count_text, duration, time_text

_END_REASONS: Final = {
    "finished": lazy_gettext("they reached its end"),
    "goal": lazy_gettext("they reached its goal"),
    "exit": lazy_gettext("they matched an exit condition or had its event"),
    "entry": lazy_gettext("they did not match its entry filter"),
    "unsubscribed": lazy_gettext("they unsubscribed"),
    "not_eligible": lazy_gettext("they may not receive its emails (no subscription, or suppressed)"),
    "bounced": lazy_gettext("their address bounced"),
    "complaint": lazy_gettext("they complained"),
    "suppressed": lazy_gettext("their address was suppressed"),
    "erased": lazy_gettext("their data was erased"),
    "removed": lazy_gettext("they, their step or the sequence was removed"),
}
_EXCLUSIONS: Final = {
    "bounced": lazy_gettext("their address bounced"),
    "unsubscribed": lazy_gettext("they unsubscribed"),
    "suppressed": lazy_gettext("their address is suppressed"),
    "unconfirmed": lazy_gettext("they have not confirmed their subscription"),
    "not_subscribed": lazy_gettext("they are not subscribed to its list, or to any list if it has none"),
    "confirmation_required": lazy_gettext("this list requires confirmation"),
}
_ENTERED_BECAUSE: Final = {
    "manual": lazy_gettext("enrolled by hand or through the API"),
    "list": lazy_gettext("list {subject}"),
    "event": lazy_gettext("event {subject}"),
    TriggerKind.ENTERS_SEGMENT.value: lazy_gettext("entered the segment {subject}"),
    TriggerKind.LEAVES_SEGMENT.value: lazy_gettext("left the segment {subject}"),
    TriggerKind.DATE_ATTRIBUTE.value: lazy_gettext("date {subject}"),
    TriggerKind.OPENS.value: lazy_gettext("opened the campaign {subject}"),
    TriggerKind.CLICKS.value: lazy_gettext("clicked in the campaign {subject}"),
    TriggerKind.SCHEDULE.value: lazy_gettext("its schedule"),
    TriggerKind.RSS.value: lazy_gettext("feed item {subject}"),
}
_NEXT: Final = {
    "send": lazy_gettext("The email {step} is next."),
    "wait": lazy_gettext("The wait {step} is next."),
    "waitUntil": lazy_gettext("The wait {step} is next."),
    "waitFor": lazy_gettext("The wait {step} is next."),
    "branch": lazy_gettext("The branch {step} decides what is next."),
    "split": lazy_gettext("The split {step} decides what is next."),
    "change": lazy_gettext("The change {step} is next."),
    "notify": lazy_gettext("The notification {step} is next."),
    "webhook": lazy_gettext("The webhook request {step} is next."),
    "goTo": lazy_gettext("The step {step} decides what is next."),
    "end": lazy_gettext("Then the sequence ends."),
}
_OUTCOMES: Final = {
    "sent": lazy_gettext("email written"),
    "skipped": lazy_gettext("email left out"),
    "already_received": lazy_gettext("email left out, already received"),
    "changed": lazy_gettext("contact changed"),
    "notified": lazy_gettext("team notified"),
    "posted": lazy_gettext("webhook requested"),
}


def run_text(run: RunExplanation, now: Instant, zone: tzinfo = UTC) -> str:
    """Explain why a person is at a step, what comes next and when, or which rule keeps them out."""
    if run.state is RunState.NEVER_ENTERED:
        return _never_entered(run, now, zone)
    entered = (
        ""
        if run.entered_at is None
        else gettext("Entered at {entered_at}", entered_at=time_text(run.entered_at, now, zone))
    )
    sentences = [
        gettext("{entered} because of: {entered_because}.", entered=entered, entered_because=_entered_because(run)),
        _state(run, now, zone),
    ]
    if run.consent_until is not None and run.excluded_because is not None:
        sentences.append(
            gettext(
                "They may not receive the next email yet: {exclusions}. It is sent within a minute after they consent, "
                "if that is before {until}. Otherwise the run ends then and does not count as one.",
                exclusions=_EXCLUSIONS[run.excluded_because],
                until=time_text(run.consent_until, now, zone),
            )
        )
    elif run.ended_at is None and run.excluded_because is not None:
        sentences.append(
            gettext(
                "The next email will not be sent, and the run ends then: {exclusions}.",
                exclusions=_EXCLUSIONS[run.excluded_because],
            )
        )
    unsent = [
        gettext("The email {node}: {sentence}", node=each.node, sentence=message_text(each.email, zone).sentence)
        for each in run.steps
        if each.email
    ]
    sentences += unsent[-1:]
    if run.ignored:
        last = time_text(run.ignored[0].received_at, now, zone)
        sentences.append(
            gettext(
                "{ignored} {name} came while they were in it, the last at {last}. Nobody is in a "
                "sequence twice at the same time, so it did not start again.",
                ignored=count_text(len(run.ignored), "more event"),
                name=run.ignored[0].name,
                last=last,
            )
        )
    if run.not_entered is not None:
        sentences.append(entry_rule_text(run.not_entered, now, zone))
    return " ".join(sentences)


def _entered_because(run: RunExplanation) -> str:
    kind, _, subject = (run.entered_because or "manual").partition(" ")
    known = _ENTERED_BECAUSE.get(kind)
    return f"{kind} {subject}" if known is None else known.format(subject=subject)


def step_text(step: StepRecord, zone: tzinfo = UTC) -> str:
    """Return what happened at a step, and why its email is not sent."""
    done, *left_out = step.outcome.split("; ")
    outcome = _OUTCOMES.get(done, done)
    for each in left_out:  # Lists to which a change did not subscribe the person, with the reasons.
        list_key, reason = each.split(": ")
        outcome += gettext(
            ", not subscribed to {list_key}: {exclusions}", list_key=list_key, exclusions=_EXCLUSIONS[reason]
        )
    if step.email is not None:
        return f"{outcome}, {step.message_status}: {message_text(step.email, zone).sentence}"
    return outcome if step.message_status is None else f"{outcome}, {step.message_status}"


def entry_rule_text(rule: NotEntered, now: Instant, zone: tzinfo = UTC) -> str:
    """Return which rule keeps a person out of a sequence, or what makes them enter it."""
    at = gettext("an unknown time") if rule.at is None else time_text(rule.at, now, zone)
    if rule.reported_at is not None:
        return gettext(
            "Their latest event {subject} is of {at}. {rule}",
            subject=rule.subject,
            at=at,
            rule=_event_rule(rule, now, zone),
        )
    if rule.rule is EntryRule.RE_ENTRY:
        return _re_entry(rule, now, zone)
    return _ENTRY_RULES[rule.rule].format(
        subject=rule.subject, group=_GROUPS.get(rule.trigger, "group"), at=at, value=_value(rule.value)
    )


def _event_rule(rule: NotEntered, now: Instant, zone: tzinfo) -> str:
    match rule.rule:
        case EntryRule.LATE_EVENT:
            late = duration((rule.reported_at or 0) - (rule.at or 0))
            return gettext(
                "It arrived {late} after it happened. Events that arrive more than {late_after} late "
                "do not start sequences.",
                late=late,
                late_after=duration(LATE_AFTER),
            )
        case EntryRule.OTHER_PROPERTY if rule.property is not None and rule.wanted is not None:
            wanted = describe_property(rule.property, rule.wanted)
            return gettext(
                "Its {property} is {value}; the sequence starts only if {wanted}.",
                property=rule.property,
                value=_value(rule.value),
                wanted=wanted,
            )
        case EntryRule.ALREADY_IN:
            return gettext(
                "They were in the sequence then, so it did not start again. {rule}", rule=_re_entry(rule, now, zone)
            )
        case EntryRule.RE_ENTRY:
            return gettext("It did not start the sequence. {rule}", rule=_re_entry(rule, now, zone))
        case _:
            return _ENTRY_RULES[rule.rule].format(at=gettext("that time"))


def _re_entry(rule: NotEntered, now: Instant, zone: tzinfo) -> str:
    if rule.again_at is None:
        return gettext("Nobody enters this sequence twice; its re-entry rule is never.")
    return gettext(
        "Its re-entry rule lets them enter again from {again_at}.", again_at=time_text(rule.again_at, now, zone)
    )


def _value(value: Any) -> str:
    if value is None:
        return gettext("not known")
    return f"“{value}”" if isinstance(value, str) else as_text(value)


_GROUPS: Final = {
    TriggerKind.ENTERS_SEGMENT: lazy_gettext("are in the segment"),
    TriggerKind.LEAVES_SEGMENT: lazy_gettext("left the segment"),
    TriggerKind.OPENS: lazy_gettext("opened the campaign"),
    TriggerKind.CLICKS: lazy_gettext("clicked in the campaign"),
}
_ENTRY_RULES: Final = {
    EntryRule.MANUAL_ONLY: lazy_gettext("Only people who are enrolled by hand or through the API enter it."),
    EntryRule.NOT_READ_YET: lazy_gettext("A worker applies the trigger within a minute if one runs."),
    EntryRule.NOT_RUNNING: lazy_gettext("The sequence did not run then."),
    EntryRule.BEFORE_PUBLICATION: lazy_gettext("That was before the trigger was published, so it does not count."),
    EntryRule.NO_EVENT: lazy_gettext("They do not have the event {subject}, which starts it."),
    EntryRule.NOT_A_CONTACT: lazy_gettext("They were not a contact then."),
    EntryRule.NOT_ON_LIST: lazy_gettext("They have not joined the list {subject}, which starts it."),
    EntryRule.LEFT_LIST: lazy_gettext("They left the list {subject}, which starts it, at {at}."),
    EntryRule.NOT_CONFIRMED: lazy_gettext("They have not confirmed their subscription to the list {subject} of {at}."),
    EntryRule.JOINED_BEFORE: (
        lazy_gettext(
            "They joined the list {subject} at {at}, before it was published. It starts for people who join later."
        )
    ),
    EntryRule.JOINED_BY_IMPORT: lazy_gettext(
        "They joined the list {subject} at {at} in a way that starts no sequence, for example by an import."
    ),
    EntryRule.NO_MATCH: lazy_gettext("It starts for people who {group} {subject}, and they do not match that now."),
    EntryRule.MATCHED_BEFORE: (
        lazy_gettext(
            "They matched its trigger already when it was published at {at}. It starts for people who match later."
        )
    ),
    EntryRule.STILL_IN_SEGMENT: lazy_gettext("They are still in the segment {subject}, and enter when they leave it."),
    EntryRule.NEVER_IN_SEGMENT: (
        lazy_gettext("They were not in the segment {subject} since it was published, so they cannot leave it.")
    ),
    EntryRule.NO_DATE: lazy_gettext("Their attribute {subject} must be a date such as 2027-01-20; it is {value}."),
    EntryRule.DATE_AHEAD: lazy_gettext("Their date {subject} is {value}. They enter at {at}."),
    EntryRule.DATE_OVER: lazy_gettext("Their date {subject} is {value}, so they would have entered at {at}."),
    EntryRule.NOT_IN_GROUP: lazy_gettext("They are not in {subject}, and only its members enter."),
    EntryRule.NEXT_SCHEDULE: lazy_gettext("They enter with the next scheduled time, {at}."),
    EntryRule.NEXT_ITEM: lazy_gettext("They enter with the next new item of the feed."),
}


def end_reason_text(reason: str | None) -> str:
    """Return why a run ended, as part of a sentence."""
    return _END_REASONS.get(reason or "removed", str(reason))


def _never_entered(run: RunExplanation, now: Instant, zone: tzinfo) -> str:
    sentences = [gettext("They have not entered this sequence.")]
    if run.status is SequenceStatus.DRAFT:
        sentences.append(gettext("It is a draft; nobody enters before it is published."))
    elif run.status is SequenceStatus.ARCHIVED:
        sentences.append(gettext("It is archived; nobody enters it any more."))
    elif run.not_entered is not None:
        sentences.append(entry_rule_text(run.not_entered, now, zone))
    if run.excluded_because is not None:
        sentences.append(
            gettext("They could not receive its emails: {exclusions}.", exclusions=_EXCLUSIONS[run.excluded_because])
        )
    return " ".join(sentences)


def _why_ended(run: RunExplanation) -> str:
    if run.excluded_because is not None:
        return gettext("they may not receive its emails: {exclusions}", exclusions=_EXCLUSIONS[run.excluded_because])
    reason = end_reason_text(run.end_reason)
    if not run.unmatched:
        return reason
    return gettext(
        "{reason}, which is for {unmatched}",
        reason=reason,
        unmatched="; ".join(_unmatched(each) for each in run.unmatched),
    )


def _unmatched(part: UnmatchedCondition) -> str:
    wanted = describe(part.condition).rstrip(".").removeprefix("Contacts ")
    attribute = part.condition.get("attribute")
    return gettext("contacts {wanted}", wanted=wanted) + (
        (" " + gettext("(theirs is {value})", value=_value(part.value))) if attribute is not None else ""
    )


def _state(run: RunExplanation, now: Instant, zone: tzinfo) -> str:
    step = run.node or "(start)"
    following = "" if run.next_kind is None else " " + _NEXT[run.next_kind].format(step=run.next_node)
    until = gettext("an unknown time") if run.next_at is None else time_text(run.next_at, now, zone)
    match run.state:
        case RunState.ENDED:
            at = gettext("an unknown time") if run.ended_at is None else time_text(run.ended_at, now, zone)
            return gettext("It ended at {at} because {run}.", at=at, run=_why_ended(run))
        case RunState.FAILED:
            return gettext("The step {step} failed: {failure} Retry or skip it.", step=step, failure=run.failure)
        case RunState.PAUSED:
            return gettext(
                "The sequence is paused; they keep their place at {step}, due at {until}.{following}",
                step=step,
                until=until,
                following=following,
            )
        case RunState.WAITS_FOR_CONSENT:
            return gettext("They wait at {step} for their consent.", step=step)
        case RunState.WAITS | RunState.WAITS_FOR_FILTER | RunState.WAITS_FOR_EMAIL:
            return _wait(run, until, following)
        case _:
            return gettext(
                "The step {step} is due now and runs within seconds if a worker runs.{following}",
                step=step,
                following=following,
            )


def _wait(run: RunExplanation, until: str, following: str) -> str:
    is_filter = run.state is RunState.WAITS_FOR_FILTER
    if run.unsent_step is not None and is_filter:
        return gettext(
            "They wait at {step} for its filter or event. Its timeout counts from when the email {email} is sent, "
            "and ends at {until} at the earliest.",
            step=run.node,
            email=run.unsent_step,
            until=until,
        )
    if run.unsent_step is not None:
        return gettext(
            "They wait at {step}, which counts from when the email {email} is sent, until {until} at the "
            "earliest.{following}",
            step=run.node,
            email=run.unsent_step,
            until=until,
            following=following,
        )
    if is_filter:
        return gettext(
            "They wait at {step} for its filter or event, at the latest until {until}.", step=run.node, until=until
        )
    return gettext("They wait at {step} until {until}.{following}", step=run.node, until=until, following=following)


def deferred_text(deferred: DeferredEmails) -> str:
    """Return how many emails of a step each limit holds: `working hours: hello 3`."""
    failed = gettext(", {failed} fail", failed=deferred.failed) if deferred.failed else ""
    return f"{limit_name(deferred.reason)}: {deferred.step} {deferred.emails}{failed}"


def left_out_texts(rehearsal: Rehearsal) -> list[str]:
    """Return sentences about requested people who do not enter the rehearsal."""
    found = []
    if rehearsal.already_in:
        people = count_text(rehearsal.already_in, "person", "people")
        found.append(gettext("{people} would not enter: already in it.", people=people))
    if rehearsal.re_entry:
        people = count_text(rehearsal.re_entry, "person", "people")
        found.append(gettext("{people} would not enter: left out by the re-entry rule.", people=people))
    for reason, count in sorted(rehearsal.excluded.items()):
        people = count_text(count, "person", "people")
        found.append(gettext("{people} would not enter: {why}.", people=people, why=_EXCLUSIONS[reason]))
    if rehearsal.unknown:
        addresses = count_text(rehearsal.unknown, "address", "addresses")
        found.append(gettext("{addresses} would not enter: not among the contacts.", addresses=addresses))
    return found


def unsent_texts(rehearsal: Rehearsal) -> list[str]:
    """Return sentences about the steps of a rehearsal that fail and the emails that are not sent."""
    found = []
    for each in rehearsal.failed_steps:
        people = count_text(each.people, "person", "people")
        found.append(
            gettext(
                "The step {step} would fail for {people}. {reason}", step=each.step, people=people, reason=each.reason
            )
        )
    if rehearsal.failed:
        found.append(
            gettext(
                "{failed} would never be sent: the frequency cap or a pause by the recipient would "
                "hold them until after their lifetime. Use longer waits or raise the cap.",
                failed=_emails(rehearsal.failed),
            )
        )
    if rehearsal.cancelled:
        found.append(
            gettext(
                "{cancelled} would be cancelled: the person would leave the sequence before a limit "
                "lets the email pass.",
                cancelled=_emails(rehearsal.cancelled),
            )
        )
    if rehearsal.waiting:
        found.append(gettext("{waiting} would still wait at the end.", waiting=_emails(rehearsal.waiting)))
    return found


def _emails(number: int) -> str:
    return f"{number:,} {'email' if number == 1 else 'emails'}"
