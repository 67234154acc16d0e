"""Models of sequences."""

from collections.abc import Iterable
from datetime import UTC, date, tzinfo
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mailwright.domain.clock import Instant
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.enrol import EnrolmentRecord, People
from mailwright.sources.sequences.entry_rules import EntryRule, NotEntered
from mailwright.sources.sequences.explain import RunExplanation, StepRecord
from mailwright.sources.sequences.overdue import MAX_SPREAD_HOURS, Overdue, OverdueChoice
from mailwright.sources.sequences.publish import AffectedPerson, MovePlan
from mailwright.sources.sequences.ready import list_ready
from mailwright.sources.sequences.records import StoredSequence
from mailwright.sources.sequences.rehearsal import MAX_DAYS, Rehearsal
from mailwright.sources.sequences.sequences import SequenceCounts
from mailwright.texts.explanations import message_text
from mailwright.texts.sequences import entry_rule_text, run_text

# The maximum number of people that are listed by name. The totals count everyone.
MAX_LISTED = 100


class SequenceRequest(RequestModel):
    """The document of a sequence, or the name of a ready-made sequence and the list for it."""

    document: dict[str, Any] | None = None
    ready: Annotated[str | None, Field(max_length=63)] = None
    list: Annotated[str | None, Field(max_length=63)] = None

    @model_validator(mode="after")
    def _require_one(self) -> "SequenceRequest":
        if (self.document is None) == (self.ready is None):
            raise ValueError(lazy_gettext("needs exactly one of document and ready"))
        if self.list is not None and self.ready is None:
            raise ValueError(lazy_gettext("list belongs to ready; name the list of a document in the document"))
        return self


class SequenceUpdateRequest(RequestModel):
    """`revision`: the revision that your change is based on.

    If the sequence has another one, somebody else has changed it, and your change is refused.
    """

    document: dict[str, Any]
    revision: Annotated[int, Field(ge=1)]


class OverdueRequest(RequestModel):
    """What happens to people whose next step is overdue: sent now, left out, or spread over some hours."""

    overdue: Literal["send", "skip", "spread"] | None = None
    hours: Annotated[int, Field(ge=1, le=MAX_SPREAD_HOURS)] = 24
    dry_run: bool = False

    @property
    def choice(self) -> OverdueChoice | None:
        return None if self.overdue is None else OverdueChoice(Overdue(self.overdue), self.hours)


class SequencePublishRequest(OverdueRequest):
    """`received`: whether people get an email a second time, if the new version moves its step after their position."""

    received: Literal["skip", "send"] = "skip"
    revision: Annotated[int, Field(ge=1)] | None = None


class SequenceResumeRequest(OverdueRequest):
    pass


class SequenceEnrolRequest(RequestModel):
    """Addresses, or everyone on a list or in a segment."""

    emails: Annotated[tuple[str, ...], Field(max_length=10_000)] = ()
    list: Annotated[str | None, Field(max_length=63)] = None
    segment: Annotated[str | None, Field(max_length=63)] = None

    @property
    def people(self) -> People:
        return People(self.emails, self.list, self.segment)


class SequenceRetryRequest(RequestModel):
    """Without an address: everyone whose step failed. `skip`: continue without the email of the step."""

    email: Annotated[str | None, Field(max_length=254)] = None
    skip: bool = False


class SequenceRemoveRequest(RequestModel):
    email: Annotated[str, Field(max_length=254)]


class SequenceRehearseRequest(RequestModel):
    """People who enter now in the rehearsal, in addition to those in the sequence: addresses, a list or a segment."""

    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30
    emails: Annotated[tuple[str, ...], Field(max_length=10_000)] = ()
    list: Annotated[str | None, Field(max_length=63)] = None
    segment: Annotated[str | None, Field(max_length=63)] = None

    @property
    def people(self) -> People | None:
        if not self.emails and self.list is None and self.segment is None:
            return None
        return People(self.emails, self.list, self.segment)


class EnrolmentPage(Page):
    state: Literal["active", "failed", "ended"] | None = None


class SequenceResponse(ResponseModel):
    sequence_id: str
    name: str
    status: str
    revision: int
    version: int | None
    created_at: Time
    updated_at: Time


class ReadySequenceResponse(ResponseModel):
    """A ready-made sequence. `needsList` means that it starts when people join a list, which you name."""

    name: str
    title: str
    description: str
    needs_list: bool
    document: dict[str, Any]
    templates: list[str]
    segments: list[str]


class ReadySequenceListResponse(ResponseModel):
    sequences: list[ReadySequenceResponse]


class SequenceListResponse(ResponseModel):
    sequences: list[SequenceResponse]


class SequencePeopleResponse(ResponseModel):
    """Number of people in a sequence: in total, by step, and with a failed or overdue step; and how the ended runs
    ended.
    """

    enrolled: int
    failed: int
    overdue: int
    by_step: dict[str, int]
    ended: dict[str, int]


class SequenceDetailResponse(SequenceResponse):
    """`nextEntryAt`: the next time of a schedule.

    `feedReadAt` and `feedError`: when the feed of a trigger was read last, and the error if that failed.
    """

    next_entry_at: Time | None
    feed_read_at: Time | None
    feed_error: str | None
    document: dict[str, Any]
    people: SequencePeopleResponse


class AffectedPersonResponse(ResponseModel):
    email: str
    step: str
    to: str | None
    is_overdue: bool
    received: list[str]


class SequencePlanResponse(ResponseModel):
    """How a new version affects the people in the sequence.

    `received`: by step, the number of people who already received its email and would reach it again.
    """

    stays: int
    moves: int
    ends: int
    overdue: int
    received: dict[str, int]
    people: list[AffectedPersonResponse]


class PublishWarningResponse(ResponseModel):
    """A warning about the email of a step, about the step itself (no template), or about the feed (no step)."""

    step: str | None
    template: str | None
    locale: str
    code: str
    sentence: str


class SequencePublishResponse(SequencePlanResponse):
    is_published: bool
    version: int | None
    warnings: list[PublishWarningResponse]


class SequenceResumeResponse(ResponseModel):
    status: str
    overdue: int


class SequenceEnrolResponse(ResponseModel):
    """How many people entered, and why others did not.

    `alreadyIn` people are in the sequence now; `reEntry` people had a run before, and the re-entry rule keeps them out.
    """

    enrolled: int
    already_in: int
    re_entry: int
    not_eligible: int
    unknown: int


class SequenceRetryResponse(ResponseModel):
    people: int


class EnrolmentResponse(ResponseModel):
    """One run of a person through a sequence.

    `nextAt` is null if the run waits for an event without a time limit. `unsentStep`: the wait counts from the email of
    this step, which is not sent yet; `nextAt` is then the time of the next check. `awaitsConsent`: the person may not
    receive the email of the step yet; it is sent when they consent, and the run ends at `nextAt` if they do not.
    """

    email: str
    run: int
    entered_at: Time
    entered_because: str
    step: str | None
    next_at: Time | None
    failure: str | None
    ended_at: Time | None
    end_reason: str | None
    unsent_step: str | None
    awaits_consent: bool


class EnrolledSequenceResponse(SequenceDetailResponse):
    """A sequence with those who entered last."""

    enrolments: list[EnrolmentResponse]


class EnrolmentListResponse(ResponseModel):
    enrolments: list[EnrolmentResponse]
    next_cursor: str | None


class DeferredEmailsResponse(ResponseModel):
    """The emails of a step that the limit `reason` holds.

    `failed` is the number that expire before they could be sent.
    """

    step: str
    reason: str
    emails: int
    failed: int


class RehearsedDayResponse(ResponseModel):
    """The emails that are sent on a day, and the emails of that day's steps that a limit holds."""

    day: date
    emails: int
    by_step: dict[str, int]
    deferred: list[DeferredEmailsResponse]
    is_over_limit: bool


class FailedPeopleResponse(ResponseModel):
    """How many people stop at a step, and why."""

    step: str
    reason: str
    people: int


class SequenceRehearsalResponse(ResponseModel):
    """What the draft would do under the limits of the tenant, if people neither open, click, buy nor unsubscribe.

    `alreadyIn`, `reEntry`, `notEligible` and `unknown` count the people in the request who would not enter, as in the
    response of `enrol`.
    """

    people: int
    emails: int
    failed: int
    cancelled: int
    waiting: int
    still_in: int
    ended: dict[str, int]
    daily_limit: int | None
    already_in: int
    re_entry: int
    not_eligible: int
    unknown: int
    failed_steps: list[FailedPeopleResponse]
    days: list[RehearsedDayResponse]


class SequenceEmailResponse(ResponseModel):
    """Why the email of a step is not sent, in the words of the message's explanation. `until`: when a deferral ends."""

    sentence: str
    state: str
    reason: str | None
    until: Time | None


class SequenceStepResponse(ResponseModel):
    """A step that happened, with the state of its email."""

    step: str
    kind: str
    at: Time
    outcome: str
    outbox_id: str | None
    message_status: str | None
    email: SequenceEmailResponse | None


class NotEnteredResponse(ResponseModel):
    """The rule that keeps a person out of a sequence, with its details. Fields that do not apply are null."""

    rule: EntryRule
    sentence: str
    trigger: TriggerKind
    subject: Annotated[str | None, Field(description="The event, list, segment, campaign or attribute.")]
    at: Annotated[Time | None, Field(description="When it happened, or when the person enters.")]
    reported_at: Annotated[Time | None, Field(description="When the event arrived.")]
    again_at: Annotated[Time | None, Field(description="When the person may enter again; null for never.")]
    property: Annotated[str | None, Field(description="The property of the event that is not as wanted.")]
    wanted: dict[str, Any] | None
    value: Any


class UnmatchedConditionResponse(ResponseModel):
    """A condition of the entry filter that the person does not match, and the person's value of the attribute."""

    condition: dict[str, Any]
    value: Any


class IgnoredEventResponse(ResponseModel):
    """An event that did not start the sequence, because the person was already in it."""

    event_id: str
    event: str
    occurred_at: Time
    received_at: Time


class SequenceRunResponse(ResponseModel):
    """Why a person is at a step of a sequence, what comes next and when."""

    sequence_id: str
    name: str
    status: str
    sentence: str
    state: str
    run: int | None
    entered_at: Time | None
    entered_because: str | None
    step: str | None
    next_at: Time | None
    next_step: str | None
    failure: str | None
    ended_at: Time | None
    end_reason: str | None
    excluded_because: str | None
    not_entered: NotEnteredResponse | None
    unmatched: list[UnmatchedConditionResponse]
    ignored_events: list[IgnoredEventResponse]
    steps: list[SequenceStepResponse]
    unsent_step: str | None
    consent_until: Annotated[
        Time | None, Field(description="Until when the next email waits for the person's consent, if it does.")
    ]


class SequenceRunListResponse(ResponseModel):
    runs: list[SequenceRunResponse]


def rehearsal_response(rehearsal: Rehearsal) -> SequenceRehearsalResponse:
    return SequenceRehearsalResponse.model_validate(rehearsal)


def run_list_response(runs: Iterable[RunExplanation], now: Instant, zone: tzinfo = UTC) -> SequenceRunListResponse:
    return SequenceRunListResponse(runs=[_run_response(run, now, zone) for run in runs])


def _run_response(run: RunExplanation, now: Instant, zone: tzinfo) -> SequenceRunResponse:
    ignored = [
        IgnoredEventResponse(
            event_id=each.event_id, event=each.name, occurred_at=each.occurred_at, received_at=each.received_at
        )
        for each in run.ignored
    ]
    return SequenceRunResponse(
        sequence_id=run.sequence_id,
        name=run.name,
        status=run.status.value,
        sentence=run_text(run, now, zone),
        state=run.state.value,
        run=run.run,
        entered_at=run.entered_at,
        entered_because=run.entered_because,
        step=run.node,
        next_at=run.next_at,
        next_step=run.next_node,
        failure=run.failure,
        ended_at=run.ended_at,
        end_reason=run.end_reason,
        excluded_because=run.excluded_because,
        not_entered=None if run.not_entered is None else _not_entered(run.not_entered, now, zone),
        unmatched=[
            UnmatchedConditionResponse(condition=dict(each.condition), value=each.value) for each in run.unmatched
        ],
        ignored_events=ignored,
        steps=[_step_response(each, zone) for each in run.steps],
        unsent_step=run.unsent_step,
        consent_until=run.consent_until,
    )


def _step_response(step: StepRecord, zone: tzinfo) -> SequenceStepResponse:
    email = None
    if (why := step.email) is not None:
        sentence = message_text(why, zone).sentence
        email = SequenceEmailResponse(sentence=sentence, state=why.state, reason=why.reason, until=why.until)
    return SequenceStepResponse(
        step=step.node,
        kind=step.kind,
        at=step.at,
        outcome=step.outcome,
        outbox_id=step.outbox_id,
        message_status=step.message_status,
        email=email,
    )


def _not_entered(found: NotEntered, now: Instant, zone: tzinfo) -> NotEnteredResponse:
    wanted = None if found.wanted is None else found.wanted.model_dump(by_alias=True, exclude_none=True)
    return NotEnteredResponse(
        rule=found.rule,
        sentence=entry_rule_text(found, now, zone),
        trigger=found.trigger,
        subject=found.subject,
        at=found.at,
        reported_at=found.reported_at,
        again_at=found.again_at,
        property=found.property,
        wanted=wanted,
        value=found.value,
    )


def ready_list_response() -> ReadySequenceListResponse:
    found = [
        ReadySequenceResponse(
            name=each.name,
            title=each.title,
            description=each.description,
            needs_list=each.needs_list,
            document=each.document,
            templates=list(each.templates),
            segments=list(each.segments),
        )
        for each in list_ready()
    ]
    return ReadySequenceListResponse(sequences=found)


def sequence_response(sequence: StoredSequence) -> SequenceResponse:
    fields = {name: getattr(sequence, name) for name in SequenceResponse.model_fields}
    return SequenceResponse(**fields)


def sequence_detail_response(sequence: StoredSequence, counts: SequenceCounts) -> SequenceDetailResponse:
    by_step = {node or "(start)": people for node, people in counts.by_step.items()}
    people = SequencePeopleResponse(
        enrolled=counts.enrolled,
        failed=counts.failed,
        overdue=counts.overdue,
        by_step=by_step,
        ended=dict(counts.ended),
    )
    feed = counts.feed
    return extend(
        SequenceDetailResponse,
        sequence_response(sequence),
        next_entry_at=counts.next_entry_at,
        feed_read_at=None if feed is None else feed.read_at,
        feed_error=None if feed is None else feed.error,
        document=sequence.draft,
        people=people,
    )


def plan_response(plan: MovePlan) -> SequencePlanResponse:
    return SequencePlanResponse(
        stays=plan.stays,
        moves=plan.moves,
        ends=plan.ends,
        overdue=plan.overdue,
        received=plan.received,
        people=[_affected(each) for each in plan.affected[:MAX_LISTED]],
    )


def publish_response(plan: MovePlan, version: int | None, *, is_published: bool) -> SequencePublishResponse:
    warnings = [PublishWarningResponse.model_validate(each) for each in plan.warnings]
    values = {"is_published": is_published, "version": version, "warnings": warnings}
    return extend(SequencePublishResponse, plan_response(plan), **values)


def _affected(person: AffectedPerson) -> AffectedPersonResponse:
    return AffectedPersonResponse(
        email=person.email,
        step=person.node,
        to=person.to,
        is_overdue=person.is_overdue,
        received=list(person.received),
    )


def enrolment_response(record: EnrolmentRecord) -> EnrolmentResponse:
    return EnrolmentResponse(
        email=record.email,
        run=record.run,
        entered_at=record.entered_at,
        entered_because=record.entered_because,
        step=record.node,
        next_at=record.due_at,
        failure=record.failure,
        ended_at=record.ended_at,
        end_reason=record.end_reason,
        unsent_step=record.unsent_step,
        awaits_consent=record.awaits_consent,
    )
