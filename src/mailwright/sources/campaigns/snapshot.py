"""Freezing: what a campaign will say and to whom, checked as a whole and fixed at its start."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Select, case, func, or_, select, true

from mailwright.audience.segments import audience, audience_query, lacks_attribute
from mailwright.content.preheader import with_preheader
from mailwright.content.presend_checks import IssueLevel, PresendContext, PresendIssue, run_presend_checks
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore, latest_by_locale
from mailwright.content.unsubscribe_footer import has_unsubscribe_link, with_unsubscribe_link
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.enqueue import size_of_test_group
from mailwright.sources.campaigns.entries import CampaignSnapshot, CampaignVariant, RunningAbTest
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, lists, segments

NO_FACTS = PresendContext()
# Databases bound how many columns one question may have.
_ASKED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class CampaignProblem:
    field: str
    code: str
    message: str


class CampaignNotStartable(MailwrightError):
    """The campaign cannot start."""

    code = "CAMPAIGN_REFUSED"

    def __init__(self, problems: list[CampaignProblem]) -> None:
        super().__init__("; ".join(f"{each.field}: {each.message}" for each in problems), field=problems[0].field)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class FrozenCampaign:
    content: CampaignSnapshot
    planned: int
    warnings: tuple[PresendIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalizedContent:
    """What readers of one locale get, compiled. A key where it is a template's version as it stands."""

    subject: str
    html: str
    text: str | None
    key: int | None = None


@dataclass(frozen=True, slots=True)
class VariantDraft:
    """One version of the content, not yet stored; one of its texts is for everyone."""

    name: str
    texts: Mapping[str, LocalizedContent]
    share: int


@dataclass(frozen=True, slots=True)
class RequiredVariable:
    """A variable that a text needs of each of its readers: of everyone, where it is in no locale."""

    variable: str
    locale: str


@dataclass(frozen=True, slots=True)
class CampaignCheck:
    """All that can be said of a campaign before it starts, and what it would send to how many."""

    problems: tuple[CampaignProblem, ...]
    warnings: tuple[PresendIssue, ...]
    drafts: tuple[VariantDraft, ...]
    filter: dict[str, Any] | None
    planned: int


async def freeze(
    database: Database,
    store: TemplateStore,
    definition: CampaignDefinition,
    *,
    tenant_id: int,
    campaign_id: str,
    now: Instant,
    facts: PresendContext = NO_FACTS,
) -> FrozenCampaign:
    """Everything that is wrong is told at once; nothing is stored before all of it is right."""
    examined = await check_campaign(database, store, definition, tenant_id=tenant_id, now=now, facts=facts)
    if examined.problems:
        raise CampaignNotStartable(list(examined.problems))
    versions = [await _stored(store, tenant_id, campaign_id, draft) for draft in examined.drafts]
    content = CampaignSnapshot(
        tuple(versions), _payload(campaign_id, definition), definition.lists, examined.filter, _contest(definition)
    )
    return FrozenCampaign(content, examined.planned, examined.warnings)


async def check_campaign(
    database: Database,
    store: TemplateStore,
    definition: CampaignDefinition,
    *,
    tenant_id: int,
    now: Instant,
    facts: PresendContext = NO_FACTS,
) -> CampaignCheck:
    """What starting would say, without starting."""
    problems: list[CampaignProblem] = []
    warnings: dict[PresendIssue, None] = {}
    bodies = await _bodies(store, tenant_id, definition, problems)
    async with database.read() as tx:
        unasked: list[CampaignProblem] = []  # what keeps the audience from being asked for as it was meant
        filter_ = await _filter(tx, tenant_id, definition, unasked)
        await _check_lists(tx, tenant_id, definition, unasked)
        people = _people(tenant_id, definition, filter_, now, unasked)
        problems += unasked
        drafts = await _drafts(tx, tenant_id, definition, bodies, problems)
        texts = {text: locale for draft in drafts for locale, text in draft.texts.items()}
        needed = (
            RequiredVariable(name, locale)
            for text, locale in texts.items()
            for name in _needed(text, definition.variables)
        )
        needs = list(dict.fromkeys(needed))
        planned, lacking = await _count(tx, people, needs)
        if not unasked:
            problems += _too_few(definition, planned)
        for text in texts:
            found = run_presend_checks(subject=text.subject, html=text.html, text=text.text, context=facts)
            problems += [_problem(each) for each in found if each.level is IssueLevel.ERROR]
            warnings.update(dict.fromkeys(each for each in found if each.level is IssueLevel.WARNING))
        if planned:
            problems += [_lacked(need, missing, planned) for need, missing in lacking.items() if missing]
        else:
            # Where nobody is in the audience, what none of the tenant's people has is missing all the same.
            anyone = audience(tenant_id, (), None, now)
            problems += [_unknown(need) for need in needs if not await _somebody_has(tx, anyone, need)]
    return CampaignCheck(tuple(dict.fromkeys(problems)), tuple(warnings), tuple(drafts), filter_, planned)


async def draft_variants(
    database: Database, store: TemplateStore, definition: CampaignDefinition, *, tenant_id: int
) -> tuple[list[VariantDraft], list[CampaignProblem]]:
    """What it says, whoever gets it, and what keeps it from being said. Nobody is counted for that."""
    problems: list[CampaignProblem] = []
    bodies = await _bodies(store, tenant_id, definition, problems)
    async with database.read() as tx:
        drafts = await _drafts(tx, tenant_id, definition, bodies, problems)
    return drafts, problems


async def filter_with_segment(
    tx: Transaction, tenant_id: int, filter_: dict[str, Any] | None, segment: str
) -> dict[str, Any]:
    """A campaign's own filter, widened by a segment. Where it has none, there is nothing that could be widened."""
    saved = await _saved(tx, tenant_id, segment)
    if saved is None:
        raise InvalidInput(f"there is no segment {segment}", field="segment")
    if filter_ is None:
        raise InvalidInput(
            "the campaign has no filter: everyone on its lists is in its audience already, in the segment or not; "
            "extend it without one, or start another campaign for the segment",
            field="segment",
        )
    return {"any": [filter_, saved]}


def _payload(campaign_id: str, definition: CampaignDefinition) -> dict[str, Any]:
    """What is the same in every message; the reader's own part is read when the message is claimed."""
    payload: dict[str, Any] = {"campaign": campaign_id, "variables": definition.variables}
    if definition.sender is not None:
        payload["from"] = definition.sender
    if definition.reply_to is not None:
        payload["replyTo"] = definition.reply_to
    return payload


def _contest(definition: CampaignDefinition) -> RunningAbTest | None:
    """None where there is nobody left for a winner: then the versions share the whole audience."""
    experiment = definition.ab_test
    if experiment is None or experiment.test_percent == 100:
        return None
    return RunningAbTest(experiment.winner_by, experiment.wait_minutes * MINUTE)


async def _filter(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> dict[str, Any] | None:
    if definition.segment is None:
        return definition.filter
    saved = await _saved(tx, tenant_id, definition.segment)
    if saved is None:
        problems.append(CampaignProblem("segment", "UNKNOWN_SEGMENT", f"there is no segment {definition.segment}"))
        return None
    return saved if definition.filter is None else {"all": [saved, definition.filter]}


async def _saved(tx: Transaction, tenant_id: int, segment: str) -> dict[str, Any] | None:
    mine = (segments.c.tenant_id == tenant_id) & (segments.c.segment_key == segment)
    rows = await tx.execute(select(segments.c.filter).where(mine))
    found: dict[str, Any] | None = orjson.loads(rows[0].filter) if rows else None
    return found


def _people(
    tenant_id: int,
    definition: CampaignDefinition,
    filter_: dict[str, Any] | None,
    now: Instant,
    problems: list[CampaignProblem],
) -> Select[Any]:
    try:
        return audience_query(tenant_id, definition.lists, filter_, now)
    except InvalidInput as error:
        problems.append(CampaignProblem(error.field or "filter", error.code, str(error)))
        return audience_query(tenant_id, definition.lists, None, now)  # so that the rest can be told, too


def _too_few(definition: CampaignDefinition, planned: int) -> list[CampaignProblem]:
    """Somebody is to get the campaign, and each of its versions."""
    if planned == 0:
        return [CampaignProblem("lists", "NO_RECIPIENTS", "nobody who may be written to is in this audience")]
    experiment = definition.ab_test
    if experiment is None or (some := size_of_test_group(planned, experiment.test_percent)) >= len(experiment.variants):
        return []
    message = (
        f"{experiment.test_percent} % of {planned} recipients are {some}, too few for {len(experiment.variants)} "
        "versions: some version would go to nobody"
    )
    return [CampaignProblem("experiment.testPercent", "TOO_FEW_FOR_TEST", message)]


async def _check_lists(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> None:
    if not definition.lists and definition.segment is None and definition.filter is None:
        problems.append(CampaignProblem("lists", "NO_AUDIENCE", "name a list, a segment or a filter: who is it for?"))
    wanted = set(definition.lists) - {GENERAL}
    known = await tx.execute(
        select(lists.c.list_key).where(lists.c.tenant_id == tenant_id, lists.c.list_key.in_(wanted))
    )
    for missing in sorted(wanted - {row.list_key for row in known}):
        problems.append(CampaignProblem("lists", "UNKNOWN_LIST", f"there is no list {missing}"))


async def _bodies(
    store: TemplateStore, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> dict[str, str | None]:
    """What the campaign itself says, compiled, by the field that says it. None where that failed."""
    written = {"content.body": definition.content.body}
    for number, variant in enumerate(definition.ab_test.variants if definition.ab_test else ()):
        written[_variant_body(number)] = variant.body
    compiled: dict[str, str | None] = {}
    for field, body in written.items():
        if body is None:
            continue
        try:
            compiled[field] = await store.compiled(tenant_id, body, definition.content.format, title=definition.name)
        except InvalidTemplate as error:
            problems.append(CampaignProblem(field, error.code, str(error)))
            compiled[field] = None
    return compiled


async def _drafts(
    tx: Transaction,
    tenant_id: int,
    definition: CampaignDefinition,
    bodies: Mapping[str, str | None],
    problems: list[CampaignProblem],
) -> list[VariantDraft]:
    """One for each version; a version that says nothing of its own says what the campaign says."""
    base = await _base(tx, tenant_id, definition, bodies, problems)
    if not base:
        return []
    preheader = definition.content.preheader
    if preheader is not None:
        base = _with_preheader(base, preheader)
    experiment = definition.ab_test
    if experiment is None:
        return [VariantDraft("", base, 100)]
    share, rest = divmod(experiment.test_percent, len(experiment.variants))
    drafts: list[VariantDraft] = []
    for number, variant in enumerate(experiment.variants):
        texts = base if variant.subject is None else _with_subject(base, variant.subject)
        if html := bodies.get(_variant_body(number)):
            everyone = LocalizedContent(texts[DEFAULT_LOCALE].subject, html, texts[DEFAULT_LOCALE].text)
            texts = (
                {DEFAULT_LOCALE: everyone}
                if preheader is None
                else _with_preheader({DEFAULT_LOCALE: everyone}, preheader)
            )
        drafts.append(VariantDraft(variant.name, texts, share + (number < rest)))
    return drafts


async def _base(
    tx: Transaction,
    tenant_id: int,
    definition: CampaignDefinition,
    bodies: Mapping[str, str | None],
    problems: list[CampaignProblem],
) -> dict[str, LocalizedContent]:
    content = definition.content
    if content.template_id is None:
        html = bodies["content.body"]
        return {} if html is None else {DEFAULT_LOCALE: LocalizedContent(content.subject or "", html, content.text)}
    found = await latest_by_locale(tx, tenant_id, content.template_id)
    if not found:
        problem = f"there is no template {content.template_id}"
        problems.append(CampaignProblem("content.templateId", "UNKNOWN_TEMPLATE", problem))
        return {}
    texts = {locale: LocalizedContent(each.subject, each.html, each.text, each.key) for locale, each in found.items()}
    return texts if content.subject is None else _with_subject(texts, content.subject)


def _with_subject(texts: Mapping[str, LocalizedContent], subject: str) -> dict[str, LocalizedContent]:
    """A subject that the campaign itself gives is the subject for every locale."""
    return {locale: replace(text, subject=subject, key=None) for locale, text in texts.items()}


def _with_preheader(texts: Mapping[str, LocalizedContent], preheader: str) -> dict[str, LocalizedContent]:
    return {
        locale: replace(text, html=with_preheader(text.html, preheader), key=None) for locale, text in texts.items()
    }


def _variant_body(number: int) -> str:
    return f"experiment.variants[{number}].body"


def _problem(found: PresendIssue) -> CampaignProblem:
    return CampaignProblem(_FIELDS[found.where], found.code, found.sentence)


_FIELDS = {"subject": "content.subject", "html": "content.body", "text": "content.text", "sender": "from"}


def _reads(locale: str) -> ColumnElement[bool]:
    """People whose locale is this one or a narrower one."""
    theirs = func.lower(contacts.c.locale)
    return or_(theirs == locale.lower(), theirs.like(f"{locale.lower()}-%"))


def _needed(text: LocalizedContent, given: Mapping[str, Any]) -> list[str]:
    """Variables that nobody gives: each must be an attribute that everyone in the audience has."""
    try:
        template = Template(subject=text.subject, html=text.html, text=text.text)
    except InvalidTemplate:
        return []  # told already
    return sorted(template.required_variables - STANDARD_VARIABLES.keys() - given.keys())


async def _count(
    tx: Transaction, people: Select[Any], needs: list[RequiredVariable]
) -> tuple[int, dict[RequiredVariable, int]]:
    """How many they are, and how many of them lack what. They are many: all of it is asked in one walk, or in few."""
    planned = 0
    lacking: dict[RequiredVariable, int] = {}
    for start in range(0, max(len(needs), 1), _ASKED_AT_ONCE):
        asked = needs[start : start + _ASKED_AT_ONCE]
        lacks_it = [func.count(case((_readers(need) & lacks_attribute(need.variable), 1))) for need in asked]
        [row] = await tx.execute(people.add_columns(func.count(), *lacks_it))
        planned, *missing = map(int, row)
        lacking |= zip(asked, missing, strict=True)
    return planned, lacking


async def _somebody_has(tx: Transaction, people: ColumnElement[bool], need: RequiredVariable) -> bool:
    has_it = select(contacts.c.id).where(people, _readers(need), ~lacks_attribute(need.variable)).limit(1)
    return bool(await tx.execute(has_it))


def _readers(need: RequiredVariable) -> ColumnElement[bool]:
    return _reads(need.locale) if need.locale else true()


def _lacked(need: RequiredVariable, missing: int, planned: int) -> CampaignProblem:
    message = f"{{{{ {need.variable} }}}} is used, and {missing} of {planned} recipients have no such attribute"
    return CampaignProblem("variables", "MISSING_VARIABLE", f"{message}; {_default_for(need.variable)}")


def _unknown(need: RequiredVariable) -> CampaignProblem:
    message = f"{{{{ {need.variable} }}}} is used, and nobody has such an attribute; {_default_for(need.variable)}"
    return CampaignProblem("variables", "MISSING_VARIABLE", message)


def _default_for(variable: str) -> str:
    return f"give it a value for all, or a default in the text, as {{{{ {variable}|default('…') }}}}"


async def _stored(store: TemplateStore, tenant_id: int, campaign_id: str, draft: VariantDraft) -> CampaignVariant:
    """Versions of templates never change, so they are only noted; what the campaign says itself is stored for it."""
    name = f"campaign:{campaign_id}:{draft.name}" if draft.name else f"campaign:{campaign_id}"
    keys: dict[str, int] = {}
    for locale, text in sorted(draft.texts.items()):  # the one for everyone first
        can_leave = has_unsubscribe_link(text.html)
        if text.key is not None and can_leave:
            keys[locale] = text.key
            continue
        html = text.html if can_leave else with_unsubscribe_link(text.html, locale)
        stored = await store.put(tenant_id, name[:100], subject=text.subject, html=html, text=text.text, locale=locale)
        keys[locale] = stored.key
    # The narrowest first: whoever reads `pt-BR` is met by it before `pt`.
    narrowest_first = dict(sorted(keys.items(), key=lambda each: -len(each[0])))
    return CampaignVariant(draft.name, draft.texts[DEFAULT_LOCALE].subject, narrowest_first, draft.share)
