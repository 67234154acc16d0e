"""Draft the variants of a campaign: the compiled content of each, by locale."""

import dataclasses
from collections.abc import Mapping
from dataclasses import replace

from mailwright.content.preheader import with_preheader
from mailwright.content.template import InvalidSubject, InvalidTemplate
from mailwright.content.template_store import TemplateStore, latest_by_locale
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.domain.translation import lazy_gettext, lazy_text
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.storage.database import Database, Transaction

UNKNOWN_TEMPLATE = "UNKNOWN_TEMPLATE"


@dataclass(frozen=True, slots=True)
class CampaignProblem:
    field: str
    code: str
    message: str
    # The language of the template that has the problem. It is not compared, so that a problem in several languages is
    # reported once.
    locale: str = dataclasses.field(default="", compare=False)


class CampaignNotStartable(MailwrightError):
    """The campaign cannot start."""

    code = "CAMPAIGN_REFUSED"

    def __init__(self, problems: list[CampaignProblem]) -> None:
        super().__init__(
            lazy_text(lambda: "; ".join(f"{problem.field}: {problem.message}" for problem in problems)),
            field=problems[0].field,
        )
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class LocalizedContent:
    """The compiled content for one locale. It has a key if it is a stored version of a template."""

    subject: str
    html: str
    text: str | None
    key: int | None = None


@dataclass(frozen=True, slots=True)
class VariantDraft:
    """A variant that is not stored yet, with content for the default locale and perhaps for others."""

    name: str
    texts: Mapping[str, LocalizedContent]
    share: int
    # The request fields of the subject and body, for error messages.
    subject_field: str = "content.subject"
    body_field: str = "content.body"

    def field_of(self, error: InvalidTemplate) -> str:
        return self.subject_field if isinstance(error, InvalidSubject) else self.body_field


async def draft_variants(
    database: Database, store: TemplateStore, definition: CampaignDefinition, *, tenant_id: int
) -> tuple[list[VariantDraft], list[CampaignProblem]]:
    """Return the drafts and the problems of the content, without checking the audience."""
    problems: list[CampaignProblem] = []
    bodies = await compile_bodies(store, tenant_id, definition, problems)
    async with database.read() as tx:
        drafts = await build_drafts(tx, tenant_id, definition, bodies, problems)
    return drafts, problems


async def compile_bodies(
    store: TemplateStore, tenant_id: int, definition: CampaignDefinition, problems: list[CampaignProblem]
) -> dict[str, str | None]:
    """Compile the bodies that the campaign itself defines, by field. A body that does not compile is None."""
    content = definition.content
    written = {"content.body": (content.body, content.subject)}
    for number, variant in enumerate(definition.ab_test.variants if definition.ab_test else ()):
        written[_body_field(number)] = (variant.body, variant.subject or content.subject)
    compiled: dict[str, str | None] = {}
    for field, (body, subject) in written.items():
        if body is None:
            continue
        try:
            compiled[field] = await store.compiled(tenant_id, body, content.format, title=subject or "")
        except InvalidTemplate as error:
            problems.append(CampaignProblem(field, error.code, error.text))
            compiled[field] = None
    return compiled


async def build_drafts(
    tx: Transaction,
    tenant_id: int,
    definition: CampaignDefinition,
    bodies: Mapping[str, str | None],
    problems: list[CampaignProblem],
) -> list[VariantDraft]:
    """Return a draft for each variant. A variant without its own content uses the campaign's."""
    base = await _base_content(tx, tenant_id, definition, bodies, problems)
    if not base:
        return []
    preheader = definition.content.preheader
    base = _with_preheader(base, preheader)
    ab_test = definition.ab_test
    if ab_test is None:
        return [VariantDraft("", base, 100)]
    share, rest = divmod(ab_test.test_percent, len(ab_test.variants))
    drafts: list[VariantDraft] = []
    for number, variant in enumerate(ab_test.variants):
        texts = base if variant.subject is None else _with_subject(base, variant.subject)
        fields = {} if variant.subject is None else {"subject_field": f"experiment.variants[{number}].subject"}
        if html := bodies.get(_body_field(number)):
            default = texts[DEFAULT_LOCALE]
            own = {DEFAULT_LOCALE: LocalizedContent(default.subject, html, default.text)}
            texts = _with_preheader(own, preheader)
            fields["body_field"] = _body_field(number)
        drafts.append(VariantDraft(variant.name, texts, share + (number < rest), **fields))
    return drafts


async def _base_content(
    tx: Transaction,
    tenant_id: int,
    definition: CampaignDefinition,
    bodies: Mapping[str, str | None],
    problems: list[CampaignProblem],
) -> dict[str, LocalizedContent]:
    content = definition.content
    if not content.is_written:
        message = lazy_gettext("write the email, or choose a template")
        problems.append(CampaignProblem("content.body", "NO_CONTENT", message))
        return {}
    if content.template_id is None:
        html = bodies["content.body"]
        return {} if html is None else {DEFAULT_LOCALE: LocalizedContent(content.subject or "", html, content.text)}
    stored = await latest_by_locale(tx, tenant_id, content.template_id)
    if not stored:
        message = lazy_gettext("There is no template {template_id}", template_id=content.template_id)
        problems.append(CampaignProblem("content.templateId", UNKNOWN_TEMPLATE, message))
        return {}
    texts = {locale: LocalizedContent(each.subject, each.html, each.text, each.key) for locale, each in stored.items()}
    return texts if content.subject is None else _with_subject(texts, content.subject)


def _with_subject(texts: Mapping[str, LocalizedContent], subject: str) -> dict[str, LocalizedContent]:
    """Use the campaign's own subject for every locale."""
    return {locale: replace(text, subject=subject, key=None) for locale, text in texts.items()}


def _with_preheader(texts: Mapping[str, LocalizedContent], preheader: str | None) -> dict[str, LocalizedContent]:
    if preheader is None:
        return dict(texts)
    return {
        locale: replace(text, html=with_preheader(text.html, preheader), key=None) for locale, text in texts.items()
    }


def _body_field(number: int) -> str:
    return f"experiment.variants[{number}].body"
