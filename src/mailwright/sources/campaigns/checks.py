"""Check a campaign before it starts: its content, its audience and the variables that recipients must have."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import ColumnElement, Select, case, false, func, or_, select, true

from mailwright.audience.attribute_names import case_mistake_sentence, find_case_mistakes
from mailwright.audience.eligibility import Exclusion, is_known
from mailwright.audience.exclusions import NamedAudience, count_excluded
from mailwright.audience.filter_references import UNKNOWN_CAMPAIGN, UNKNOWN_LIST, find_missing, find_unused_tags
from mailwright.audience.segments import audience_query, lacks_attribute, load_filters, membership
from mailwright.content.presend_checks import (
    IssueLevel,
    PresendContext,
    PresendIssue,
    errors_first,
    run_presend_checks,
    unknown_segment,
)
from mailwright.content.segments_used import segments_used
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.permits import LimitLevel
from mailwright.domain.schedule import is_past
from mailwright.domain.sender_policy import SENDER_DOMAIN_NOT_VERIFIED
from mailwright.domain.translation import lazy_gettext
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox.limits import load_tenant_limits, parse_campaign_limits
from mailwright.policies.hours import lane_outside_hours
from mailwright.sources.campaigns.attachments import CampaignAttachment, check_attachments
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.enqueue import size_of_test_group
from mailwright.sources.campaigns.held_recipients import NOBODY_HELD, HeldRecipients, count_held
from mailwright.sources.campaigns.tracking_plan import NOT_TRACKED, TrackingPlan, check_metric, plan_tracking
from mailwright.sources.campaigns.unfinished_content import TEMPLATE_FIELD, check_designs, find_unpublished
from mailwright.sources.campaigns.variants import (
    UNKNOWN_TEMPLATE,
    CampaignProblem,
    LocalizedContent,
    VariantDraft,
    build_drafts,
    compile_bodies,
    draft_variants,
)
from mailwright.sources.sender_rules import CODE, NO_SENDER_RULES, SenderRules, refusal_text
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, lists, segments

NO_FACTS = PresendContext()
ARCHIVED_LIST = "ARCHIVED_LIST"
UNKNOWN_SEGMENT = "UNKNOWN_SEGMENT"
SEND_NOW_ADVICE = lazy_gettext("choose a later time, or confirm that you want to send it now")
PAST_SEND_TIME_WARNING = lazy_gettext("The send time is in the past. Choose a later time, or send the campaign now.")
# The variable with the name of the recipient.
NAME: Final = "name"
_PRINTED_NAME: Final = re.compile(r"\{\{-?\s*name\b(?![^}]*\b(?:or|else|true)\b)[^}]*\}\}")
_NAME_CONDITION: Final = re.compile(r"\{%-?\s*if\b[^%]*\bname\b")
# Databases limit the number of columns of a query.
_MAX_COUNTED_VARIABLES = 100
# With fewer recipients, a variant that is twice as good usually has no clear lead.
SMALL_VARIANT: Final = 100


@dataclass(frozen=True, slots=True)
class RequiredVariable:
    """A variable that every recipient of the locale needs; an empty locale means every recipient."""

    variable: str
    locale: str


@dataclass(frozen=True, slots=True)
class LackingRecipients:
    """How many recipients lack a variable, and the address of one of them."""

    number: int
    example: str | None


@dataclass(frozen=True, slots=True)
class ReviewedContent:
    """The content of a campaign, the filter of its audience, and the filters of the segments in the content's
    conditions.
    """

    drafts: tuple[VariantDraft, ...]
    filter: dict[str, Any] | None
    segments: Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CampaignCheck:
    """The problems and warnings of a campaign, with its content and the number of its recipients."""

    problems: tuple[CampaignProblem, ...]
    warnings: tuple[PresendIssue, ...]
    drafts: tuple[VariantDraft, ...]
    filter: dict[str, Any] | None
    planned: int
    excluded: Mapping[Exclusion, int] = field(default_factory=dict)  # only with `counts_excluded`
    # Rules of the large mailbox providers that are not met, one sentence each; None if they do not apply.
    unmet_rules: tuple[str, ...] | None = None
    has_postal_address: bool = True
    tracking: TrackingPlan = NOT_TRACKED
    held: HeldRecipients = NOBODY_HELD
    segments: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # filters of segments in the content

    @property
    def content(self) -> ReviewedContent:
        return ReviewedContent(self.drafts, self.filter, self.segments)


async def check_campaign(
    database: Database,
    store: TemplateStore,
    definition: CampaignDefinition,
    *,
    tenant_id: int,
    now: Instant,
    facts: PresendContext = NO_FACTS,
    counts_excluded: bool = False,
    rules: SenderRules = NO_SENDER_RULES,
    overrides_rules: bool = False,
    attachments: Sequence[CampaignAttachment] = (),
) -> CampaignCheck:
    """Run all pre-send checks without starting the campaign. `counts_excluded` takes another scan of the contacts."""
    found = _Findings(list(_check_schedule(definition, now)))
    may_report = definition.ab_test is None or (await rules.route_of(tenant_id, Source.CAMPAIGN)).may_report
    bodies = await compile_bodies(store, tenant_id, definition, found.problems)
    async with database.read() as tx:
        audience_problems: list[CampaignProblem] = []
        filter_ = await _load_filter(tx, tenant_id, definition, audience_problems)
        await _check_lists(tx, tenant_id, definition, audience_problems)
        await _check_references(tx, tenant_id, definition, audience_problems)
        members = _audience_query(tenant_id, definition, filter_, now, audience_problems)
        found.problems += audience_problems
        drafts = await build_drafts(tx, tenant_id, definition, bodies, found.problems)
        found.problems += [each async for each in find_unpublished(tx, tenant_id, definition)]
        found.sort(await check_designs(tx, tenant_id, definition), TEMPLATE_FIELD)
        known = await _load_content_segments(tx, tenant_id, drafts, now, found.problems)
        texts = {text: locale for draft in drafts for locale, text in draft.texts.items()}
        required = _required_variables(texts, definition.variables)
        planned, missing = await _count(tx, members, required)
        tracking = await plan_tracking(tx, tenant_id, definition, members, rules.tracking)
        if not audience_problems:
            found.problems += _check_size(definition, planned)
            found.problems += check_metric(definition, tracking, planned, may_report=may_report)
            found.warn(_check_test_group(definition, planned))
        _check_texts(drafts, texts, facts, found)
        found.problems += await _variable_problems(tx, tenant_id, required, missing, planned)
        found.warn(await _name_warnings(tx, members, texts, definition.variables, planned))
        if filter_ is not None and not audience_problems:
            found.warn(await _filter_warnings(tx, tenant_id, filter_))
        counts_excluded = counts_excluded and not audience_problems
        excluded = await count_excluded(tx, _named(tenant_id, definition, filter_), now) if counts_excluded else {}
    found.warn(await _hours_warnings(database, definition, tenant_id, now, facts))
    found.warn(check_attachments(attachments, planned))
    held = await count_held(database, definition, members, planned, tenant_id=tenant_id, now=now, limits=facts.limits)
    found.warn(held.warnings)
    has_postal = not any(issue.code == "NO_POSTAL_ADDRESS" for issue in found.warnings)
    found.problems += await check_sender_domain(rules, tenant_id, definition)
    unmet = await rules.unmet(
        tenant_id, Source.CAMPAIGN, planned, sender=definition.sender, has_postal_address=has_postal
    )
    if unmet:
        found.add_unmet_rules(refusal_text(unmet, rules.limit), is_overridden=overrides_rules)
    problems, warnings = tuple(dict.fromkeys(found.problems)), tuple(found.warnings)
    return CampaignCheck(
        problems, warnings, tuple(drafts), filter_, planned, excluded, unmet, has_postal, tracking, held, known
    )


def _check_texts(
    drafts: Sequence[VariantDraft], texts: Mapping[LocalizedContent, str], facts: PresendContext, found: "_Findings"
) -> None:
    """Check each text of the drafts once. An issue knows its language."""
    checked = {
        (text, draft.subject_field, draft.body_field): draft for draft in drafts for text in draft.texts.values()
    }
    for (text, *_), draft in checked.items():
        issues = run_presend_checks(subject=text.subject, html=text.html, text=text.text, context=facts)
        found.sort([replace(issue, locale=texts[text]) for issue in issues], draft.body_field, draft.subject_field)


async def check_campaign_content(
    database: Database,
    store: TemplateStore,
    definition: CampaignDefinition,
    *,
    tenant_id: int,
    facts: PresendContext = NO_FACTS,
) -> list[PresendIssue]:
    """Return the issues of the content as `check_campaign` finds them, without those of the audience."""
    drafts, _ = await draft_variants(database, store, definition, tenant_id=tenant_id)
    async with database.read() as tx:
        issues = dict.fromkeys(await check_designs(tx, tenant_id, definition))
    for text in {text for draft in drafts for text in draft.texts.values()}:
        found = run_presend_checks(subject=text.subject, html=text.html, text=text.text, context=facts)
        issues |= dict.fromkeys(found)
    return errors_first(issues)


async def check_sender_domain(
    rules: SenderRules, tenant_id: int, definition: CampaignDefinition
) -> list[CampaignProblem]:
    """Return the problem of a sender that the tenant must not use, if there is one."""
    refusal = await rules.refusal(tenant_id, definition.sender)
    return [] if refusal is None else [CampaignProblem("from", SENDER_DOMAIN_NOT_VERIFIED, refusal)]


@dataclass(slots=True)
class _Findings:
    """The problems and warnings that the checks have found so far, each warning once."""

    problems: list[CampaignProblem]
    warnings: dict[PresendIssue, None] = field(default_factory=dict)

    def warn(self, issues: Iterable[PresendIssue]) -> None:
        self.warnings.update(dict.fromkeys(issues))

    def sort(self, issues: Sequence[PresendIssue], body_field: str, subject_field: str = "") -> None:
        """Add errors as problems of these fields of the request, and all others as warnings."""
        fields = {**_FIELDS, "subject": subject_field, "html": body_field}
        self.problems.extend(
            CampaignProblem(fields[issue.where], issue.code, issue.sentence, issue.locale)
            for issue in issues
            if issue.level is IssueLevel.ERROR
        )
        self.warn(issue for issue in issues if issue.level is IssueLevel.WARNING)

    def add_unmet_rules(self, text: str, *, is_overridden: bool) -> None:
        if is_overridden:
            self.warn([PresendIssue(IssueLevel.WARNING, CODE, text, "sender")])
        else:
            self.problems.append(CampaignProblem("from", CODE, text))


async def load_content(
    database: Database, store: TemplateStore, definition: CampaignDefinition, *, tenant_id: int
) -> ReviewedContent:
    """Return the content as `check_campaign` finds it, without counting the audience."""
    ignored: list[CampaignProblem] = []
    bodies = await compile_bodies(store, tenant_id, definition, ignored)
    async with database.read() as tx:
        filter_ = await _load_filter(tx, tenant_id, definition, ignored)
        drafts = await build_drafts(tx, tenant_id, definition, bodies, ignored)
        known = await _load_content_segments(tx, tenant_id, drafts, store.clock.now(), ignored)
    return ReviewedContent(tuple(drafts), filter_, known)


async def require_existing(database: Database, tenant_id: int, definition: CampaignDefinition) -> None:
    """Raise if the definition names a list, a segment or a template that does not exist."""
    problems: list[CampaignProblem] = []
    async with database.read() as tx:
        await _load_filter(tx, tenant_id, definition, problems)
        await _check_lists(tx, tenant_id, definition, problems)
        await _check_references(tx, tenant_id, definition, problems)
        if definition.content.template_id is not None:
            await build_drafts(tx, tenant_id, definition, {}, problems)
    for problem in problems:
        if problem.code in (UNKNOWN_LIST, UNKNOWN_CAMPAIGN, UNKNOWN_SEGMENT, UNKNOWN_TEMPLATE):
            raise InvalidInput("{text}. Create it first, or check the name.", field=problem.field, text=problem.message)
        if problem.code == ARCHIVED_LIST:
            raise InvalidInput("{text}.", field=problem.field, text=problem.message)


@dataclass(frozen=True, slots=True)
class AudienceCount:
    """How many contacts would receive a draft, and how many would not, by reason."""

    planned: int
    excluded: Mapping[Exclusion, int]
    left_out: int  # members of excluded lists and segments
    problems: tuple[CampaignProblem, ...] = ()


async def count_audience(
    database: Database, tenant_id: int, definition: CampaignDefinition, now: Instant
) -> AudienceCount:
    """Count the audience of a draft, even if other parts of the draft are missing."""
    everyone = definition.model_copy(update={"exclude_lists": (), "exclude_segments": ()})
    problems: list[CampaignProblem] = []
    async with database.read() as tx:
        members, filter_ = await _load_members(tx, tenant_id, definition, now, problems)
        if problems:
            return AudienceCount(0, {}, 0, tuple(problems))
        planned, _ = await _count(tx, members, [])
        excluded = await count_excluded(tx, _named(tenant_id, definition, filter_), now)
        before = planned
        if definition.exclude_lists or definition.exclude_segments:
            wider = await _load_filter(tx, tenant_id, everyone, problems)
            before, _ = await _count(tx, audience_query(tenant_id, definition.lists, wider, now), [])
    return AudienceCount(planned, excluded, before - planned)


async def count_recipients(tx: Transaction, tenant_id: int, definition: CampaignDefinition, now: Instant) -> int:
    """Count the recipients of a draft. There are none if its audience has a problem."""
    members, _ = await _load_members(tx, tenant_id, definition, now, [])
    return (await _count(tx, members, []))[0]


async def _load_members(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, now: Instant, problems: list[CampaignProblem]
) -> tuple[Select[Any], dict[str, Any] | None]:
    """Return a query of the recipients and their filter, and add the problems of the audience."""
    filter_ = await _load_filter(tx, tenant_id, definition, problems)
    await _check_lists(tx, tenant_id, definition, problems)
    await _check_references(tx, tenant_id, definition, problems)
    return _audience_query(tenant_id, definition, filter_, now, problems), filter_


async def named_audience(tx: Transaction, tenant_id: int, definition: CampaignDefinition) -> NamedAudience:
    """Return the audience of the definition, or raise if its segment does not exist."""
    problems: list[CampaignProblem] = []
    filter_ = await _load_filter(tx, tenant_id, definition, problems)
    await _check_references(tx, tenant_id, definition, problems)
    if problems:
        raise InvalidInput("{text}.", field=problems[0].field, text=problems[0].message)
    return _named(tenant_id, definition, filter_)


def _named(tenant_id: int, definition: CampaignDefinition, filter_: dict[str, Any] | None) -> NamedAudience:
    return NamedAudience(tenant_id, definition.lists, filter_, is_narrowed=definition.is_narrowed)


async def filter_with_segment(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, filter_: dict[str, Any] | None, segment: str
) -> dict[str, Any]:
    """Return the campaign's filter, widened by a segment. Its exclusions still apply."""
    problems: list[CampaignProblem] = []
    exclusions = await _load_exclusions(tx, tenant_id, definition, problems)
    if problems:
        raise InvalidInput("{text}.", field=problems[0].field, text=problems[0].message)
    saved = await _load_segment(tx, tenant_id, segment)
    if saved is None:
        raise InvalidInput("There is no segment {segment}", field="segment", segment=segment)
    if filter_ is None or not definition.is_narrowed:
        raise InvalidInput(
            "the campaign has no filter, so everyone on its lists is already in its audience; "
            "extend it without a segment, or start another campaign for the segment",
            field="segment",
        )
    return {"all": [{"any": [filter_, saved]}, *exclusions]} if exclusions else {"any": [filter_, saved]}


# The send time.


def _check_schedule(definition: CampaignDefinition, now: Instant) -> Iterator[CampaignProblem]:
    if definition.scheduled_at is not None and is_past(definition.scheduled_at, now):
        yield CampaignProblem(
            "scheduledAt",
            "SCHEDULE_IN_PAST",
            lazy_gettext("the send time is in the past; {send_now_advice}", send_now_advice=SEND_NOW_ADVICE),
        )


async def _hours_warnings(
    database: Database, definition: CampaignDefinition, tenant_id: int, now: Instant, facts: PresendContext
) -> list[PresendIssue]:
    """Warn about a send time outside working hours: the campaign would wait until they open."""
    begins_at = max(now, definition.scheduled_at or now)
    own = await load_tenant_limits(database, facts.limits)
    tenant = own.get(tenant_id, facts.limits)
    campaign = parse_campaign_limits(definition.limits.model_dump_json(by_alias=False), tenant, now)
    levels = (LimitLevel("tenant", tenant), LimitLevel("campaign", campaign))
    deferral = lane_outside_hours(levels, is_bulk=True, now=begins_at)
    if deferral is None:
        return []
    opens = datetime.fromtimestamp(deferral.until / 1000, ZoneInfo(tenant.timezone))
    begins = f"{opens.day} {opens:%b %Y, %H:%M} {tenant.timezone}"
    sentence = (
        lazy_gettext("Its send time is outside working hours. Sending begins on {time}.", time=begins)
        if definition.scheduled_at is not None
        else lazy_gettext("It is now outside working hours. Sending begins on {time}.", time=begins)
    )
    return [PresendIssue(IssueLevel.WARNING, "OUTSIDE_HOURS", sentence, "scheduledAt")]


# The audience.


async def _load_filter(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> dict[str, Any] | None:
    """Return the segment, the filter and the condition of a resend. A contact must match all of them."""
    conditions = [] if definition.filter is None else [definition.filter]
    conditions += await _load_exclusions(tx, tenant_id, definition, problems)
    if definition.resend_of is not None:
        conditions.append({"didNotOpen": {"campaign": definition.resend_of}})
    if definition.segment is not None:
        saved = await _load_segment(tx, tenant_id, definition.segment)
        if saved is None:
            problems.append(
                CampaignProblem(
                    "segment",
                    UNKNOWN_SEGMENT,
                    lazy_gettext("There is no segment {segment}", segment=definition.segment),
                )
            )
            return None
        conditions.insert(0, saved)
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return {"all": conditions}


async def _load_exclusions(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> list[dict[str, Any]]:
    """Return a condition for each excluded list and segment."""
    conditions: list[dict[str, Any]] = [{"not": {"list": list_key}} for list_key in definition.exclude_lists]
    for segment in definition.exclude_segments:
        saved = await _load_segment(tx, tenant_id, segment)
        if saved is None:
            problems.append(
                CampaignProblem(
                    "excludeSegments", UNKNOWN_SEGMENT, lazy_gettext("There is no segment {segment}", segment=segment)
                )
            )
        else:
            conditions.append({"not": saved})
    return conditions


async def _check_references(
    tx: Transaction,
    tenant_id: int,
    definition: CampaignDefinition,
    problems: list[CampaignProblem],
) -> None:
    """Check that the filter and the segments name only lists and campaigns that exist."""
    fields = dict.fromkeys(definition.exclude_segments, "excludeSegments")
    if definition.segment is not None:
        fields[definition.segment] = "segment"
    saved = await load_filters(tx, tenant_id, fields.keys())
    named = [(fields[key], f" The segment {key} names it", each) for key, each in saved.items()]
    if definition.filter is not None:
        named.append(("filter", "", definition.filter))
    for field_, user, filter_ in named:
        missing = await find_missing(tx, tenant_id, filter_)
        problems += [CampaignProblem(field_, code, f"{text}.{user}".rstrip(".")) for code, text in missing.problems]


async def _load_segment(tx: Transaction, tenant_id: int, segment: str) -> dict[str, Any] | None:
    condition = (segments.c.tenant_id == tenant_id) & (segments.c.segment_key == segment)
    rows = await tx.execute(select(segments.c.filter).where(condition))
    saved: dict[str, Any] | None = orjson.loads(rows[0].filter) if rows else None
    return saved


async def _load_content_segments(
    tx: Transaction,
    tenant_id: int,
    drafts: Sequence[VariantDraft],
    now: Instant,
    problems: list[CampaignProblem],
) -> dict[str, dict[str, Any]]:
    """Return the filters of the segments in the content's conditions. A segment that was deleted is a problem."""
    fields: dict[str, str] = {}
    for draft in drafts:
        for text in draft.texts.values():
            try:
                used = segments_used(text.subject, text.html, text.text)
            except InvalidTemplate as error:
                problems.append(CampaignProblem(draft.body_field, error.code, error.text))
                continue
            fields |= dict.fromkeys(used, draft.body_field)
    found = await load_filters(tx, tenant_id, fields.keys())
    for key, body_field in fields.items():
        if key not in found:
            problems.append(CampaignProblem(body_field, UNKNOWN_SEGMENT, unknown_segment(key)))
            continue
        missing = await find_missing(tx, tenant_id, found[key])
        problems += [
            CampaignProblem(
                body_field, code, lazy_gettext("{text}. The segment {key} of the content names it", text=text, key=key)
            )
            for code, text in missing.problems
        ]
        try:
            membership(tenant_id, {key: found[key]}, now)
        except InvalidInput as error:
            problems.append(
                CampaignProblem(
                    body_field,
                    error.code,
                    lazy_gettext("the segment {key} cannot be used: {error}", key=key, error=error),
                )
            )
    return found


async def _check_lists(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> None:
    if not definition.lists and not definition.is_narrowed:
        problems.append(CampaignProblem("lists", "NO_AUDIENCE", lazy_gettext("choose a list or a segment")))
    named = dict.fromkeys(definition.exclude_lists, "excludeLists") | dict.fromkeys(definition.lists, "lists")
    wanted = set(named) - {GENERAL}
    rows = await tx.execute(
        select(lists.c.list_key, lists.c.archived_at).where(
            lists.c.tenant_id == tenant_id, lists.c.list_key.in_(wanted)
        )
    )
    for missing in sorted(wanted - {row.list_key for row in rows}):
        problems.append(
            CampaignProblem(named[missing], UNKNOWN_LIST, lazy_gettext("There is no list {missing}", missing=missing))
        )
    for archived in sorted(row.list_key for row in rows if row.archived_at is not None):
        message = lazy_gettext("The list {archived} is archived. Restore it first", archived=archived)
        problems.append(CampaignProblem(named[archived], ARCHIVED_LIST, message))


def _audience_query(
    tenant_id: int,
    definition: CampaignDefinition,
    filter_: dict[str, Any] | None,
    now: Instant,
    problems: list[CampaignProblem],
) -> Select[Any]:
    """Select the recipients. Select none if the audience has a problem, because the number would be misleading."""
    try:
        members = audience_query(tenant_id, definition.lists, filter_, now)
    except InvalidInput as error:
        problems.append(CampaignProblem(error.field or "filter", error.code, str(error)))
        members = audience_query(tenant_id, definition.lists, None, now)
    return members.where(false()) if problems else members


async def _filter_warnings(tx: Transaction, tenant_id: int, filter_: Mapping[str, Any]) -> list[PresendIssue]:
    mistakes = await find_case_mistakes(tx, tenant_id, filter_)
    sentences = [case_mistake_sentence(name, existing) for name, existing in mistakes.items()]
    tags = await find_unused_tags(tx, tenant_id, filter_)
    unused = [
        lazy_gettext("No contact has the tag {tag}. Check its spelling in the filter or the segment.", tag=tag)
        for tag in tags
    ]
    return [
        *(PresendIssue(IssueLevel.WARNING, "ATTRIBUTE_CASE", sentence, "filter") for sentence in sentences),
        *(PresendIssue(IssueLevel.WARNING, "UNUSED_TAG", sentence, "filter") for sentence in unused),
    ]


def _check_size(definition: CampaignDefinition, planned: int) -> list[CampaignProblem]:
    """Check that the campaign, and each of its variants, has at least one recipient."""
    if planned == 0:
        return [
            CampaignProblem("lists", "NO_RECIPIENTS", lazy_gettext("the audience has no contact who may receive email"))
        ]
    ab_test = definition.ab_test
    if ab_test is None or (size := size_of_test_group(planned, ab_test.test_percent)) >= len(ab_test.variants):
        return []
    message = lazy_gettext(
        "{test_percent} % of {planned} recipients are {size}, too few for {count} variants",
        test_percent=ab_test.test_percent,
        planned=planned,
        size=size,
        count=len(ab_test.variants),
    )
    return [CampaignProblem("experiment.testPercent", "TOO_FEW_FOR_TEST", message)]


def _check_test_group(definition: CampaignDefinition, planned: int) -> list[PresendIssue]:
    """Warn if the variants have too few recipients for a clear result."""
    ab_test = definition.ab_test
    if ab_test is None or ab_test.test_percent == 100:
        return []
    each = size_of_test_group(planned, ab_test.test_percent) // len(ab_test.variants)
    if not 0 < each < SMALL_VARIANT:
        return []
    rest = f"get {ab_test.if_undecided}" if ab_test.if_undecided else "wait until someone chooses a variant"
    people = f"{each} recipient{'' if each == 1 else 's'}"
    sentence = (
        f"Each variant of the A/B test goes to about {people}. With fewer than {SMALL_VARIANT}, a clear result is "
        f"unlikely. If the test is undecided, the rest of the audience will {rest}"
    )
    return [PresendIssue(IssueLevel.WARNING, "SMALL_AB_TEST", sentence, "audience")]


# Variables.


def _required_variables(texts: Mapping[LocalizedContent, str], given: Mapping[str, Any]) -> list[RequiredVariable]:
    """Return the variables that the campaign does not define. Every recipient must have them as attributes."""
    required: dict[RequiredVariable, None] = {}
    for text, locale in texts.items():
        try:
            template = Template(subject=text.subject, html=text.html, text=text.text)
        except InvalidTemplate:
            continue  # the pre-send checks report it
        names = sorted(template.required_variables - KNOWN_VARIABLES - given.keys())
        required.update(dict.fromkeys(RequiredVariable(name, locale) for name in names))
    return list(required)


async def _count(
    tx: Transaction, members: Select[Any], required: list[RequiredVariable]
) -> tuple[int, dict[RequiredVariable, LackingRecipients]]:
    """Count the recipients, and those who lack each variable, in as few scans of the audience as possible."""
    planned = 0
    missing: dict[RequiredVariable, LackingRecipients] = {}
    for start in range(0, max(len(required), 1), _MAX_COUNTED_VARIABLES):
        counted = required[start : start + _MAX_COUNTED_VARIABLES]
        lacking = [case((_has_locale(each) & lacks_attribute(each.variable), contacts.c.email)) for each in counted]
        columns = [function(email) for email in lacking for function in (func.count, func.min)]
        [row] = await tx.execute(members.add_columns(func.count(), *columns))
        planned, values = int(row[0]), row[1:]
        missing |= zip(counted, map(LackingRecipients, values[::2], values[1::2]), strict=True)
    return planned, missing


async def _variable_problems(
    tx: Transaction,
    tenant_id: int,
    required: list[RequiredVariable],
    missing: Mapping[RequiredVariable, LackingRecipients],
    planned: int,
) -> list[CampaignProblem]:
    if planned:
        return [_missing(each, lacking, planned) for each, lacking in missing.items() if lacking.number]
    # If the audience is empty, report the variables that no contact of the tenant has.
    known = is_known(tenant_id)
    return [_unknown(each) for each in required if not await _has_any(tx, known, each)]


async def _name_warnings(
    tx: Transaction, members: Select[Any], texts: Mapping[LocalizedContent, str], given: Mapping[str, Any], planned: int
) -> list[PresendIssue]:
    """Warn about recipients without a name if the content shows it. Their emails would have a gap instead."""
    locales = {locale for text, locale in texts.items() if _shows_name(text)}
    if not locales or NAME in given:
        return []
    shows_name = or_(*(_has_locale(RequiredVariable(NAME, locale)) for locale in locales))
    is_empty = func.coalesce(contacts.c.name, "") == ""
    columns = (func.count(), func.min(contacts.c.email))
    [row] = await tx.execute(members.where(shows_name, is_empty).add_columns(*columns))
    number, example = list(row)
    if not number:
        return []
    verb = "has" if number == 1 else "have"
    sentence = (
        f"{{{{ name }}}} is used, but {number:,} of {planned:,} recipient{'' if planned == 1 else 's'} {verb} no name, "
        f'for example {example}; write what they see instead: {{{{ name|default("there", true) }}}}'
    )
    return [PresendIssue(IssueLevel.WARNING, "RECIPIENTS_WITHOUT_NAME", sentence, "subject")]


def _shows_name(text: LocalizedContent) -> bool:
    """Return whether an empty name leaves a gap: it is printed without an alternative or a condition."""
    parts = [part for part in (text.subject, text.html, text.text) if part]
    return any(_PRINTED_NAME.search(part) and not _NAME_CONDITION.search(part) for part in parts)


async def _has_any(tx: Transaction, members: ColumnElement[bool], required: RequiredVariable) -> bool:
    has_attribute = ~lacks_attribute(required.variable)
    query = select(contacts.c.id).where(members, _has_locale(required), has_attribute).limit(1)
    return bool(await tx.execute(query))


def _has_locale(required: RequiredVariable) -> ColumnElement[bool]:
    """Match contacts with this locale or a narrower one, for example `pt-BR` for `pt`."""
    if not required.locale:
        return true()
    locale = func.lower(contacts.c.locale)
    return or_(locale == required.locale.lower(), locale.like(f"{required.locale.lower()}-%"))


# Problems that prevent the start.

_FIELDS = {"text": "content.text", "sender": "from"}


def _missing(required: RequiredVariable, lacking: LackingRecipients, planned: int) -> CampaignProblem:
    recipients = "recipient" if planned == 1 else "recipients"
    verb = "has" if lacking.number == 1 else "have"
    why = f"{lacking.number} of {planned} {recipients} {verb} no such attribute, for example {lacking.example}"
    return _missing_variable(required.variable, why)


def _unknown(required: RequiredVariable) -> CampaignProblem:
    return _missing_variable(required.variable, "no contact has such an attribute")


def _missing_variable(variable: str, why: str) -> CampaignProblem:
    remedy = f'give it a value in the campaign, or a default in the text: {{{{ {variable}|default("…", true) }}}}'
    return CampaignProblem("variables", "MISSING_VARIABLE", f"{{{{ {variable} }}}} is used, but {why}; {remedy}")
