"""Send a campaign to a few test addresses, as a recipient would get it, outside the campaign's counts."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.audience.segments import load_memberships
from mailwright.content.segments_used import IN_SEGMENTS, segments_used
from mailwright.content.template import InvalidTemplate, RenderedEmail, Template
from mailwright.content.template_store import TemplateStore
from mailwright.content.unsubscribe_footer import has_unsubscribe_link, with_unsubscribe_link
from mailwright.domain import address, locales
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import NewMessage, Source
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.variants import CampaignNotStartable, CampaignProblem, VariantDraft, draft_variants
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts

SUBJECT_PREFIX = "[Test] "
MAX_ADDRESSES = 20


@dataclass(frozen=True, slots=True)
class CampaignTestSend:
    campaign_id: str
    tenant_id: int
    definition: CampaignDefinition
    addresses: Sequence[str]
    as_contact: str | None = None  # the address of the contact whose name and attributes fill the email
    attachment_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleRecipient:
    locale: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


async def build_test_messages(
    database: Database, store: TemplateStore, test: CampaignTestSend, now: Instant
) -> list[NewMessage]:
    """Build a message for each variant and address. The audience of the campaign may be incomplete."""
    addresses = _addresses(test.addresses)
    try:
        rendered = await render_variants(database, store, test)
    except InvalidTemplate as error:
        raise CampaignNotStartable([CampaignProblem(error.field or "content.body", error.code, error.text)]) from error
    return [_message(test, each, to, now) for each in rendered.values() for to in addresses]


async def render_variants(database: Database, store: TemplateStore, test: CampaignTestSend) -> dict[str, RenderedEmail]:
    """Render each variant, by its name; a campaign without an A/B test has one variant named `""`."""
    drafts, problems = await draft_variants(database, store, test.definition, tenant_id=test.tenant_id)
    if problems:
        raise CampaignNotStartable(problems)
    recipient = await _sample_recipient(database, test, _segments(drafts), store.clock.now())
    return {draft.name: _rendered(draft, test.definition, recipient, store.standard) for draft in drafts}


def _addresses(given: Sequence[str]) -> list[str]:
    addresses = list(dict.fromkeys(_address(each) for each in given))
    if not 1 <= len(addresses) <= MAX_ADDRESSES:
        raise InvalidInput("give 1 to {max_addresses} test addresses", field="addresses", max_addresses=MAX_ADDRESSES)
    return addresses


def _address(text: str) -> str:
    try:
        return address.normal(text)
    except address.InvalidAddress as error:
        raise InvalidInput(
            "{text} is not a valid address: {error}", field="addresses", text=repr(text), error=error
        ) from error


def _segments(drafts: Sequence[VariantDraft]) -> set[str]:
    texts = [text for draft in drafts for text in draft.texts.values()]
    return {key for text in texts for key in segments_used(text.subject, text.html, text.text)}


async def _sample_recipient(
    database: Database, test: CampaignTestSend, segments: set[str], now: Instant
) -> SampleRecipient:
    """Return the contact with its segments, or a member of every segment if no contact was chosen."""
    if test.as_contact is None:
        return SampleRecipient(values={IN_SEGMENTS: dict.fromkeys(segments, True)})
    email = test.as_contact.strip().lower()
    is_contact = (contacts.c.tenant_id == test.tenant_id) & (contacts.c.email == email)
    async with database.read() as tx:
        rows = await tx.execute(select(contacts).where(is_contact, contacts.c.deleted_at.is_(None)))
        members = await load_memberships(tx, test.tenant_id, segments, [email], now)
    if not rows:
        raise InvalidInput("There is no contact with this address", field="asContact")
    [row] = rows
    own = {"email": row.email, "name": row.name or "", **orjson.loads(row.attributes)}
    return SampleRecipient(row.locale, {**own, IN_SEGMENTS: members[email]})


def _rendered(
    draft: VariantDraft, definition: CampaignDefinition, recipient: SampleRecipient, standard: Mapping[str, str]
) -> RenderedEmail:
    text = locales.best(draft.texts, recipient.locale)
    given = {**standard, **definition.variables, **recipient.values}
    try:
        has_link = has_unsubscribe_link(text.html)
        html = text.html if has_link else with_unsubscribe_link(text.html, recipient.locale or "")
        template = Template(subject=text.subject, html=html, text=text.text)
        samples = {name: f"[{name}]" for name in template.required_variables - given.keys()}
        return template.render({**samples, **given})
    except InvalidTemplate as error:
        error.field = draft.field_of(error)
        raise


def _message(test: CampaignTestSend, rendered: RenderedEmail, to: str, now: Instant) -> NewMessage:
    subject = SUBJECT_PREFIX + rendered.subject
    payload: dict[str, Any] = {"campaign": test.campaign_id, "to": to, "subject": subject}
    payload |= {"html": rendered.html, "text": rendered.text}
    if test.definition.sender is not None:
        payload["from"] = test.definition.sender
    if test.definition.reply_to is not None:
        payload["replyTo"] = test.definition.reply_to
    if test.attachment_ids:
        payload["attachmentIds"] = test.attachment_ids
    return NewMessage(
        outbox_id=uuid7(now),
        tenant_id=test.tenant_id,
        source=Source.CAMPAIGN,
        request_id=test.campaign_id,
        to_email=to,
        subject=subject,
        payload={name: value for name, value in payload.items() if value is not None},
    )
