"""Trying out: a campaign's mail to a few addresses, as a reader would get it. Nobody's count changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.content.template import RenderedEmail, Template
from mailwright.content.template_store import TemplateStore
from mailwright.content.unsubscribe_footer import has_unsubscribe_link, with_unsubscribe_link
from mailwright.domain import address, locales
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.ids import uuid7
from mailwright.domain.message import NewMessage, Source
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.snapshot import CampaignNotStartable, VariantDraft, draft_variants
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
    as_contact: str | None = None  # the address of the reader whose name and attributes fill the mail


@dataclass(frozen=True, slots=True)
class SampleRecipient:
    locale: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


async def build_test_messages(
    database: Database, store: TemplateStore, trial: CampaignTestSend, now: Instant
) -> list[NewMessage]:
    """One for each version and address. An audience that is not yet right keeps nobody from looking at the mail."""
    addresses = _addresses(trial.addresses)
    shown = await render_variants(database, store, trial)
    return [_mail(trial, each, to, now) for each in shown.values() for to in addresses]


async def render_variants(
    database: Database, store: TemplateStore, trial: CampaignTestSend
) -> dict[str, RenderedEmail]:
    """Each version by its name, `""` where there is but one, as the reader would see it. Nothing is sent."""
    drafts, problems = await draft_variants(database, store, trial.definition, tenant_id=trial.tenant_id)
    if not drafts:
        raise CampaignNotStartable(problems)
    reader = await _reader(database, trial)
    return {draft.name: _rendered(draft, trial.definition, reader, store.standard) for draft in drafts}


def _addresses(given: Sequence[str]) -> list[str]:
    try:
        found = list(dict.fromkeys(address.normal(each) for each in given))
    except address.InvalidAddress as error:
        raise InvalidInput(str(error), field="addresses") from error
    if not 1 <= len(found) <= MAX_ADDRESSES:
        raise InvalidInput(f"a test goes to 1 to {MAX_ADDRESSES} addresses", field="addresses")
    return found


async def _reader(database: Database, trial: CampaignTestSend) -> SampleRecipient:
    if trial.as_contact is None:
        return SampleRecipient()
    wanted = trial.as_contact.strip().lower()
    mine = (contacts.c.tenant_id == trial.tenant_id) & (contacts.c.email == wanted) & contacts.c.deleted_at.is_(None)
    async with database.read() as tx:
        rows = await tx.execute(select(contacts).where(mine))
    if not rows:
        raise InvalidInput("there is no contact with this address", field="asContact")
    [row] = rows
    return SampleRecipient(row.locale, {"email": row.email, "name": row.name or "", **orjson.loads(row.attributes)})


def _rendered(
    draft: VariantDraft, definition: CampaignDefinition, reader: SampleRecipient, standard: Mapping[str, str]
) -> RenderedEmail:
    text = locales.best(draft.texts, reader.locale)
    html = text.html if has_unsubscribe_link(text.html) else with_unsubscribe_link(text.html, reader.locale or "")
    template = Template(subject=text.subject, html=html, text=text.text)
    given = {**standard, **definition.variables, **reader.values}
    samples = {name: f"[{name}]" for name in template.required_variables - given.keys()}
    return template.render({**samples, **given})


def _mail(trial: CampaignTestSend, rendered: RenderedEmail, to: str, now: Instant) -> NewMessage:
    subject = SUBJECT_PREFIX + rendered.subject
    payload: dict[str, Any] = {"campaign": trial.campaign_id, "to": to, "subject": subject}
    payload |= {"html": rendered.html, "text": rendered.text}
    if trial.definition.sender is not None:
        payload["from"] = trial.definition.sender
    if trial.definition.reply_to is not None:
        payload["replyTo"] = trial.definition.reply_to
    return NewMessage(
        outbox_id=uuid7(now),
        tenant_id=trial.tenant_id,
        source=Source.CAMPAIGN,
        request_id=trial.campaign_id,
        to_email=to,
        subject=subject,
        payload={name: value for name, value in payload.items() if value is not None},
    )
