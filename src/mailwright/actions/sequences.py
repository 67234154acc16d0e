"""Sequences: a series of emails for each person."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, tzinfo
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from mailwright.access.roles import Scope
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    READ,
    Argument,
    Aside,
    FromFile,
    Line,
    Moment,
    Noun,
    Option,
    Table,
    TableOf,
    time_of,
)
from mailwright.app.sequences import make_sequences
from mailwright.domain.clock import Instant
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel, Time, combine, extend
from mailwright.schemas.paging import Page
from mailwright.schemas.sequence_files import read_sequence_file, sequence_file
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.sequences.bundles import add_templates, load_templates
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.entry_rules import EntryRule, NotEntered
from mailwright.sources.sequences.explain import RunExplanation, StepRecord
from mailwright.sources.sequences.overdue import MAX_SPREAD_HOURS, Overdue, OverdueChoice
from mailwright.sources.sequences.publish import MovePlan, Received
from mailwright.sources.sequences.ready import ReadySequences, list_ready
from mailwright.sources.sequences.records import StoredSequence
from mailwright.sources.sequences.rehearsal import MAX_DAYS
from mailwright.sources.sequences.sequences import Sequences
from mailwright.texts.explanations import message_text
from mailwright.texts.sequences import (
    deferred_text,
    entry_rule_text,
    left_out_texts,
    run_text,
    step_text,
    unsent_texts,
)

noun = Noun(
    "sequence",
    "Sequences: a series of emails for each person.",
    "/v1/sequences",
    parameters={"sequence_id": ("SEQUENCE", "The ID or the name."), "email": ("EMAIL", "The address of the person.")},
    guard=Context.require_default_sender,  # Sequences send from it.
)

# The maximum number of people that are listed by name. The totals count everyone.
MAX_LISTED: Final = 100

Document = Annotated[dict[str, Any], Field(description="The document as JSON; - reads stdin."), FromFile()]
Revision = Annotated[int, Field(ge=1, description="Refuse if the draft has another revision.")]
OnList = Annotated[str | None, Field(max_length=63, description="Everyone on this list.")]
InSegment = Annotated[str | None, Field(max_length=63, description="Everyone in this segment.")]
Emails = Annotated[
    tuple[str, ...], Argument("[EMAIL]..."), Field(max_length=10_000, description="The addresses of people.")
]
Email = Annotated[str, Argument("EMAIL"), Field(max_length=254, description="The address of the person.")]
ReplaceTemplates = Annotated[
    bool,
    Option("--replace"),
    Field(description="Replace existing templates that differ from the file with new versions."),
]


class SequenceRequest(RequestModel):
    """The document of a sequence, or the name of a ready-made sequence and the list for it.

    The document can have templates under `templates`, which are stored if they are missing.
    """

    document: Annotated[Document | None, Argument("[FILE]")] = None
    ready: Annotated[
        str | None,
        Option(metavar="NAME"),
        Field(max_length=63, description="A ready-made sequence with its templates, see list --ready."),
    ] = None
    list: Annotated[
        str | None, Option(metavar="LIST"), Field(max_length=63, description="The list of the ready-made sequence.")
    ] = None
    replace_templates: ReplaceTemplates = False

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
    revision: Revision
    replace_templates: ReplaceTemplates = False


class OverdueRequest(RequestModel):
    """What happens to people whose next step is overdue: sent now, left out, or spread over some hours."""

    overdue: Annotated[
        Literal["send", "skip", "spread"] | None,
        Field(description="What happens to people whose next step is overdue."),
    ] = None
    hours: Annotated[
        int, Field(ge=1, le=MAX_SPREAD_HOURS, description="The number of hours for `--overdue spread`.")
    ] = 24
    dry_run: Annotated[bool, Field(description="Only show what would happen.")] = False

    @property
    def choice(self) -> OverdueChoice | None:
        return None if self.overdue is None else OverdueChoice(Overdue(self.overdue), self.hours)


class SequencePublishRequest(OverdueRequest):
    """`received`: whether people get an email a second time, if the new version moves its step after their position."""

    received: Annotated[
        Literal["skip", "send"],
        Field(description="Whether people get an email twice if the new version moves its step after them."),
    ] = "skip"
    revision: Revision | None = None


class SequenceResumeRequest(OverdueRequest):
    pass


class SequenceEnrolRequest(RequestModel):
    """Addresses, or everyone on a list or in a segment."""

    emails: Emails = ()
    list: OnList = None
    segment: InSegment = None

    @property
    def people(self) -> People:
        return People(self.emails, self.list, self.segment)


class SequenceRetryRequest(RequestModel):
    """Without an address: everyone whose step failed. `skip`: continue without the email of the step."""

    email: Annotated[str | None, Field(max_length=254, description="Only this person.")] = None
    skip: Annotated[bool, Field(description="Continue without the email of the failed step.")] = False


class SequenceRemoveRequest(RequestModel):
    email: Email


class SequenceRehearseRequest(SequenceEnrolRequest):
    """People who enter now in the rehearsal, in addition to those in the sequence: addresses, a list or a segment."""

    days: Annotated[int, Field(ge=1, le=MAX_DAYS, description="How many days to rehearse.")] = 30


class SequenceExportQuery(RequestModel):
    with_templates: Annotated[
        bool, Field(description="Write the newest versions of its templates into the file too.")
    ] = False


class EnrolmentPage(Page):
    state: Annotated[
        Literal["active", "failed", "ended"] | None, Field(description="Only people whose run has this state.")
    ] = None


class SequenceResponse(ResponseModel):
    sequence_id: str
    name: str
    status: str
    revision: int
    version: int | None
    created_at: Time
    updated_at: Time


class MissingObjectResponse(ResponseModel):
    """A list, segment or template that the document names and the tenant does not have."""

    field: str
    code: str
    message: str


class SequenceDraftResponse(SequenceResponse):
    """A stored draft. `missing`: what must exist before it can be published. `templates`: stored with the document."""

    missing: list[MissingObjectResponse]
    templates: list[str]


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


class PublishWarningResponse(ResponseModel):
    """A warning about the email of a step, about the step itself (no template), or about the feed (no step)."""

    step: str | None
    template: str | None
    locale: str
    code: str
    sentence: str


class SequencePublishResponse(ResponseModel):
    """How a new version affects the people in the sequence.

    `received`: by step, the number of people who already received its email and would reach it again.
    """

    stays: int
    moves: int
    ends: int
    overdue: int
    received: dict[str, int]
    people: list[AffectedPersonResponse]
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
    response of `enrol`. `excluded` counts those of `notEligible` by reason.
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
    excluded: dict[str, int]
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
    """A step that happened, with the state of its email. `sentence`: what happened."""

    step: str
    kind: str
    at: Time
    outcome: str
    sentence: str
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


class ContactSequencesQuery(RequestModel):
    sequence_id: Annotated[str | None, Field(max_length=63, description="Explain only this sequence.")] = None


class SequenceRunListResponse(ResponseModel):
    runs: list[SequenceRunResponse]


def _saved(verb: str, found: SequenceDraftResponse) -> Iterator[Line]:
    if found.templates:
        yield Aside(f"Stored the templates {', '.join(found.templates)}.", tone=None)
    yield verb
    if found.missing:
        yield "It cannot be published yet:"
    yield from (f"{each.field}: {each.message}" for each in found.missing)


def _created(found: SequenceDraftResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield from _saved(f"Created the draft {found.name} ({found.sequence_id}).", found)
    if not found.missing:
        yield f'Publish it with: mailwright sequence publish "{found.name}"'


def _edited(found: SequenceDraftResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield from _saved(f"Saved the draft of {found.name}, revision {found.revision}.", found)


def _shown(found: SequenceDetailResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    people, version = found.people, "" if found.version is None else f", version {found.version}"
    yield f"{found.name}: {found.status}{version}."
    ended = sum(people.ended.values())
    yield f"In it: {people.enrolled}. Ended: {ended}. Failed: {people.failed}. Overdue: {people.overdue}."
    if found.next_entry_at is not None:
        yield ("The schedule is due next at ", Moment(found.next_entry_at), ".")
    if found.feed_read_at is not None or found.feed_error is not None:
        problem = "" if found.feed_error is None else f" {found.feed_error}"
        yield ("The feed was last read at ", Moment(found.feed_read_at), f".{problem}")


def _next_time(person: EnrolmentResponse) -> Any:
    if person.unsent_step is not None:
        return "waits until the previous email is sent"
    return ("waits for consent until ", Moment(person.next_at)) if person.awaits_consent else Moment(person.next_at)


def _published(found: SequencePublishResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"Published version {found.version}." if found.is_published else "Nothing was published."
    if found.stays or found.moves or found.ends:
        yield f"Stay: {found.stays}. Move: {found.moves}. End: {found.ends}. Overdue: {found.overdue}."
    else:
        yield "Nobody is in it yet."
    then = "is sent again" if given["received"] == "send" else "is left out"
    for step, people in found.received.items():
        yield f"Already received {step}, which lies ahead again and {then}: {people}."
    if found.people:
        yield _AFFECTED
    for warning in found.warnings:
        template = f" ({warning.template})" if warning.template else ""
        where = "feed" if warning.step is None else f"{warning.step}{template}"
        yield f"Warning: {where}: {warning.sentence}"


_AFFECTED: Final = Table(
    "people",
    {
        "Address": "email",
        "Step": "step",
        "To": lambda each: each.to or "(end)",
        "Overdue": lambda each: "overdue" if each.is_overdue else "",
        "Already received": lambda each: ", ".join(each.received),
    },
    nothing="",
)


def _explained(found: SequenceRunListResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    for run in found.runs:
        yield run.sentence
        if run.steps:
            yield TableOf(_STEPS, run)


_STEPS: Final = Table("steps", {"Time ({zone})": time_of("at"), "Step": "step", "Result": "sentence"}, nothing="")


# The texts take what a rehearsal and its response have in common.
def _rehearsed(found: Any, given: Mapping[str, Any]) -> Iterator[Line]:
    days = given["days"]
    yield f"People: {found.people}. Emails: {found.emails}. Still in it after {days} days: {found.still_in}."
    found.days = [each for each in found.days if each.emails or each.deferred]
    yield _DAYS
    yield from (*left_out_texts(found), *unsent_texts(found))


_DAYS: Final = Table(
    "days",
    {
        "Day!": lambda each: each.day.isoformat(),
        "Emails#": "emails",
        "Steps": lambda each: ", ".join(f"{step} {number}" for step, number in each.by_step.items()),
        "Limits": lambda each: "; ".join(map(deferred_text, each.deferred)),
    },
    nothing="No emails.",
)


@noun.get(
    shown=Table(
        "sequences",
        {
            "ID!": "sequence_id",
            "Name": "name",
            "Status!": "status",
            "Version": lambda each: each.version or "",
        },
        nothing="No sequences.",
    )
)
async def list_sequences(at: Context) -> SequenceListResponse:
    """List the sequences, newest first."""
    found = await _sequences(at).list_all(at.tenant_id)
    return SequenceListResponse(sequences=[combine(SequenceResponse, each) for each in found])


@noun.post(
    scope=Scope.PROPOSE,
    audit="sequence.create",
    command="create",
    help="Create a draft from a document or a ready-made sequence. Nobody enters it before it is published.\n\n"
    "Templates that the file contains are created if they are missing.",
    shown=_created,
)
async def create(at: Context, wanted: SequenceRequest) -> SequenceDraftResponse:
    """Create a draft from a document, or from a ready-made sequence with its templates.

    Nobody enters before it is published.

    The scope `propose` creates drafts from a document; a ready-made sequence and a document with templates also create
    templates and segments, so they need `manage`.
    """
    sequences = _sequences(at)
    if wanted.ready is not None:
        at.caller.require(MANAGE)
        ready = ReadySequences(at.database, at.clock, at.templates, sequences)
        created = await ready.create(at.tenant_id, wanted.ready, list_key=wanted.list, actor=at.actor)
        return await _draft(at, created, [])
    document, templates = await _store_templates(at, wanted)
    return await _draft(at, await sequences.create(at.tenant_id, document, actor=at.actor), templates)


@noun.get(
    "/ready", shown=Table("sequences", {"Name!": "name", "Title": "title", "Description": "description"}, nothing="")
)
async def list_ready_made(_at: Context) -> ReadySequenceListResponse:
    """List the ready-made sequences, with their documents, templates and segments."""
    return ready_sequences()


def ready_sequences() -> ReadySequenceListResponse:
    found = [
        combine(ReadySequenceResponse, each, templates=list(each.templates), segments=list(each.segments))
        for each in list_ready()
    ]
    return ReadySequenceListResponse(sequences=found)


@noun.get("/{sequenceId}", shown=_shown)
async def show(at: Context, sequence_id: str) -> SequenceDetailResponse:
    """Show a sequence with its draft and the number of people at each step."""
    found = await _find(at, sequence_id)
    counts = await _sequences(at).counts(found)
    by_step = {node or "(start)": people for node, people in counts.by_step.items()}
    return combine(
        SequenceDetailResponse,
        found,
        counts,
        feed_read_at=None if counts.feed is None else counts.feed.read_at,
        feed_error=None if counts.feed is None else counts.feed.error,
        document=found.draft,
        people=combine(SequencePeopleResponse, counts, by_step=by_step, ended=dict(counts.ended)),
    )


@noun.get("/{sequenceId}/file")
async def export(at: Context, sequence_id: str, query: SequenceExportQuery) -> dict[str, Any]:
    """Return the draft as a document for another tenant or installation, with the templates of its emails if wanted.

    The document refers to lists and segments by their keys. It does not contain them.
    """
    found = await _find(at, sequence_id)
    return (
        sequence_file(found.draft, await load_templates(at.database, found))
        if query.with_templates
        else dict(found.draft)
    )


# `sequence edit` is written by hand, because it finds the revision itself.
@noun.put("/{sequenceId}", scope=Scope.PROPOSE, audit="sequence.edit", shown=_edited)
async def edit(at: Context, sequence_id: str, wanted: SequenceUpdateRequest) -> SequenceDraftResponse:
    """Replace the draft. People in the sequence are not affected until it is published.

    The scope `propose` replaces only drafts that were never published, that a key of the same name created and that
    nobody else has changed.
    """
    sequence_id = await _id(at, sequence_id)
    document, templates = await _store_templates(at, wanted)
    changed = await _sequences(at).edit(
        at.tenant_id,
        sequence_id,
        document,
        revision=wanted.revision,
        actor=at.actor,
        must_be_own=not at.caller.allows(MANAGE),
    )
    return await _draft(at, changed, templates)


@noun.delete(
    "/{sequenceId}",
    scope=MANAGE,
    audit="sequence.archive",  # Of a draft that was never published: `sequence.delete`.
    command="delete",
    help="Delete a draft that was never published, or archive a sequence, which ends it for everyone in it.",
    question="End the sequence {sequence_id} for everyone in it?",
    shown="Deleted {sequence_id}.",
)
async def remove(at: Context, sequence_id: str) -> None:
    """Delete a draft that was never published. Any other sequence is archived, which ends it for everyone in it."""
    await _sequences(at).remove(at.tenant_id, await _id(at, sequence_id), actor=at.actor)


@noun.post(
    "/{sequenceId}/publish",
    scope=MANAGE,
    audit="sequence.publish",
    command="publish",
    help="Publish the draft. Show who stays, who moves, whose run ends and who is overdue.",
    shown=_published,
)
async def publish(at: Context, sequence_id: str, wanted: SequencePublishRequest) -> SequencePublishResponse:
    """Publish the draft. `dryRun` only shows who stays, who moves, whose run ends and who is overdue."""
    sequence_id, sequences = await _id(at, sequence_id), _sequences(at)
    if wanted.dry_run:
        return _plan(await sequences.preview_publish(at.tenant_id, sequence_id), None)
    sequence, plan = await sequences.publish(
        at.tenant_id,
        sequence_id,
        revision=wanted.revision,
        overdue=wanted.choice,
        received=Received(wanted.received),
        actor=at.actor,
    )
    return _plan(plan, sequence.version)


@noun.post("/{sequenceId}/pause", scope=MANAGE, audit="sequence.pause", command="pause", shown="Paused {name}.")
async def pause(at: Context, sequence_id: str) -> SequenceResponse:
    """Stop running steps, and hold unsent emails. Everyone keeps their place, and new people still enter."""
    paused = await _sequences(at).pause(at.tenant_id, await _id(at, sequence_id), actor=at.actor)
    return combine(SequenceResponse, paused)


@noun.post(
    "/{sequenceId}/resume",
    scope=MANAGE,
    audit="sequence.resume",
    command="resume",
    help="Run steps again. If the next step or an unsent email of people is overdue, choose --overdue.",
    shown=lambda found, given: [
        f"{'Nothing was changed' if given['dry_run'] else 'Resumed'}. Overdue: {found.overdue}."
    ],
)
async def resume(at: Context, sequence_id: str, wanted: SequenceResumeRequest) -> SequenceResumeResponse:
    """Run steps again. `dryRun` only counts the people whose next step or unsent email is overdue."""
    sequence, sequences = await _find(at, sequence_id), _sequences(at)
    if wanted.dry_run:
        late = await sequences.count_overdue(at.tenant_id, sequence.sequence_id)
    else:
        sequence, late = await sequences.resume(
            at.tenant_id, sequence.sequence_id, overdue=wanted.choice, actor=at.actor
        )
    return SequenceResumeResponse(status=sequence.status.value, overdue=late)


@noun.post(
    "/{sequenceId}/enrol",
    scope=MANAGE,
    audit="sequence.enrol",
    command="enrol",
    help="Enrol people by their addresses, or everyone on a list or in a segment.",
    shown="Enrolled: {enrolled}. Already in it: {already_in}. Left out by the re-entry rule: {re_entry}. "
    "May not receive its emails: {not_eligible}. Unknown addresses: {unknown}.",
)
async def enrol(at: Context, sequence_id: str, wanted: SequenceEnrolRequest) -> SequenceEnrolResponse:
    """Enrol people: addresses, or everyone on a list or in a segment. The re-entry rule applies."""
    sequence_id = await _id(at, sequence_id)
    result = await _sequences(at).enrolments.enrol(at.tenant_id, sequence_id, wanted.people, actor=at.actor)
    return SequenceEnrolResponse.model_validate(result)


@noun.get(
    "/{sequenceId}/enrolments",
    command="enrolments",
    shown=Table(
        "enrolments",
        {
            "Address": "email",
            "Step": lambda each: each.step or "(start)",
            "Next": _next_time,
            "Result": lambda each: each.failure or each.end_reason or "",
        },
        nothing="Nobody has entered yet.",
    ),
)
async def enrolments(at: Context, sequence_id: str, page: EnrolmentPage) -> EnrolmentListResponse:
    """List who is or was in the sequence, newest first."""
    sequence_id = await _id(at, sequence_id)
    found = await _sequences(at).enrolments.list_page(
        at.tenant_id, sequence_id, limit=page.limit, before=page.before("enrolment"), state=page.state
    )
    following = page.next_cursor("enrolment", [each.id for each in found])
    listed = [combine(EnrolmentResponse, each, step=each.node, next_at=each.due_at) for each in found]
    return EnrolmentListResponse(enrolments=listed, next_cursor=following)


@noun.post(
    "/{sequenceId}/retry",
    scope=MANAGE,
    audit="sequence.retry",
    command="retry",
    shown=lambda found, given: [f"{'Skipped' if given['skip'] else 'Retrying'}: {found.people}."],
)
async def retry(at: Context, sequence_id: str, wanted: SequenceRetryRequest) -> SequenceRetryResponse:
    """Run failed steps again, or skip their emails."""
    people = await _sequences(at).enrolments.retry(
        at.tenant_id, await _id(at, sequence_id), email=wanted.email, skips=wanted.skip, actor=at.actor
    )
    return SequenceRetryResponse(people=people)


@noun.post("/{sequenceId}/remove", scope=MANAGE, audit="sequence.remove", command="remove", shown="Removed {email}.")
async def remove_person(at: Context, sequence_id: str, wanted: SequenceRemoveRequest) -> None:
    """Take a person out of the sequence, and cancel its messages to them that are not sent yet."""
    await _sequences(at).enrolments.remove(at.tenant_id, await _id(at, sequence_id), wanted.email, actor=at.actor)


@noun.post(
    "/{sequenceId}/rehearse",
    scope=READ,
    audit=None,
    command="rehearse",
    help="Run the draft on a virtual clock, for the people in it and others as if they entered now. Nothing is sent.",
    shown=_rehearsed,
)
async def rehearse(at: Context, sequence_id: str, wanted: SequenceRehearseRequest) -> SequenceRehearsalResponse:
    """Run the draft on a virtual clock: emails of the next days by step. Nothing is sent or changed."""
    is_named = wanted.emails or wanted.list is not None or wanted.segment is not None
    found = await _sequences(at).rehearsals.rehearse(
        at.tenant_id,
        await _id(at, sequence_id),
        people=wanted.people if is_named else None,
        days=wanted.days,
    )
    return SequenceRehearsalResponse.model_validate(found)


@noun.get("/{sequenceId}/people/{email:path}", command="explain", shown=_explained)
async def explain(at: Context, sequence_id: str, email: str) -> SequenceRunListResponse:
    """Explain why a person got an email of a sequence or not, what comes next and when."""
    sequence_id = await _id(at, sequence_id)
    runs = await _sequences(at).explanations.of_sequence(at.tenant_id, sequence_id, email)
    return _run_list(at, runs)


@noun.get("/v1/contacts/{email:path}/sequences")
async def sequences(at: Context, email: str, query: ContactSequencesQuery) -> SequenceRunListResponse:
    """Explain the contact's runs through sequences: why they got an email or not, what comes next and when.

    With `sequenceId`, explain one sequence, also if the contact never entered it: which rule keeps them out.
    """
    if query.sequence_id is not None:
        return await explain(at, query.sequence_id, email)
    return _run_list(at, await _sequences(at).explanations.of_person(at.tenant_id, email))


def _run_list(at: Context, runs: Iterable[RunExplanation]) -> SequenceRunListResponse:
    return SequenceRunListResponse(runs=[_run(run, at.clock.now(), at.zone) for run in runs])


def _run(run: RunExplanation, now: Instant, zone: tzinfo) -> SequenceRunResponse:
    return combine(
        SequenceRunResponse,
        run,
        sentence=run_text(run, now, zone),
        step=run.node,
        next_step=run.next_node,
        not_entered=None if run.not_entered is None else _not_entered(run.not_entered, now, zone),
        ignored_events=[combine(IgnoredEventResponse, each, event=each.name) for each in run.ignored],
        unmatched=[
            UnmatchedConditionResponse(condition=dict(each.condition), value=each.value) for each in run.unmatched
        ],
        steps=[_step(each, zone) for each in run.steps],
    )


def _step(step: StepRecord, zone: tzinfo) -> SequenceStepResponse:
    email = None
    if (why := step.email) is not None:
        email = combine(SequenceEmailResponse, why, sentence=message_text(why, zone).sentence)
    return combine(SequenceStepResponse, step, step=step.node, sentence=step_text(step, zone), email=email)


def _not_entered(found: NotEntered, now: Instant, zone: tzinfo) -> NotEnteredResponse:
    wanted = None if found.wanted is None else found.wanted.model_dump(by_alias=True, exclude_none=True)
    return combine(NotEnteredResponse, found, sentence=entry_rule_text(found, now, zone), wanted=wanted)


def _plan(plan: MovePlan, version: int | None) -> SequencePublishResponse:
    people = [combine(AffectedPersonResponse, each, step=each.node) for each in plan.affected[:MAX_LISTED]]
    return combine(SequencePublishResponse, plan, people=people, is_published=version is not None, version=version)


async def _draft(at: Context, stored: StoredSequence, templates: list[str]) -> SequenceDraftResponse:
    missing = await _sequences(at).missing(stored)
    return extend(SequenceDraftResponse, combine(SequenceResponse, stored), missing=missing, templates=templates)


async def _store_templates(at: Context, wanted: SequenceRequest | SequenceUpdateRequest) -> tuple[Any, list[str]]:
    """Store the templates of a document, and return the document without them and the IDs of the stored ones."""
    document, bundled = read_sequence_file(wanted.document)
    if not bundled:
        return document, []
    at.caller.require(MANAGE)
    return document, await add_templates(
        at.database,
        at.templates,
        at.tenant_id,
        document,
        bundled,
        actor=at.actor,
        replaces=wanted.replace_templates,
    )


async def _find(at: Context, reference: str) -> StoredSequence:
    return await _sequences(at).find(at.tenant_id, await _id(at, reference))


async def _id(at: Context, reference: str) -> str:
    return await _sequences(at).resolve(at.tenant_id, reference)


def _sequences(at: Context) -> Sequences:
    return make_sequences(at.settings, at.database, at.clock)
