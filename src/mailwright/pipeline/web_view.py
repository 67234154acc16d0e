"""Render the HTML of a message for the web view, with the recipient's data."""

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import and_, select

from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import IS_TEST, personalize_payload
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT, GENERAL, UnsubscribeTokens, unsubscribe_link
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.pipeline.compose import RecipientLinks, template_values, web_view_link
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, messages, tenants


@dataclass(frozen=True, slots=True)
class WebViewSettings:
    """The URLs and tokens for the links in a message."""

    public_url: str
    unsubscribe_url: str
    tokens: UnsubscribeTokens
    views: WebViewTokens
    postal_address: str = ""


async def render_web_view(
    database: Database, templates: TemplateStore, pages: WebViewSettings, outbox_id: str
) -> str | None:
    """Return the HTML of a bulk message; None if it has no HTML or the recipient was erased.

    A campaign message is rendered with the contact's current attributes, because they are not stored per message.
    """
    m, c = messages.c, contacts.c
    joined = messages.join(tenants, tenants.c.id == m.tenant_id).outerjoin(
        contacts, and_(c.id == m.contact_key, c.tenant_id == m.tenant_id)
    )
    query = select(m.tenant_id, m.to_email, m.payload, m.template_key, m.list_key, m.campaign_key, m.is_bulk)
    query = query.add_columns(c.name, c.attributes, c.deleted_at, tenants.c.name.label("tenant"))
    async with database.read() as tx:
        rows = await tx.execute(query.select_from(joined).where(m.outbox_id == outbox_id))
    if not rows or not rows[0].is_bulk or rows[0].deleted_at is not None:
        return None
    payload = _payload(rows[0])
    if "to" not in payload:
        return None  # The values were erased together with the contact's data.
    if "html" in payload:
        return str(payload["html"])
    return await _filled(
        templates, rows[0], template_values(payload, pages.postal_address, _links(pages, rows[0], outbox_id))
    )


async def _filled(templates: TemplateStore, row: Any, values: Mapping[str, Any]) -> str | None:
    await templates.load([row.template_key] if row.template_key is not None else [])
    stored = templates.cached(row.template_key or 0)
    if stored is None or stored.tenant_id != row.tenant_id:
        return None
    try:
        return Template(subject=stored.subject, html=stored.html, text=stored.text).render(values).html
    except InvalidTemplate:
        return None  # An attribute that the template needs no longer exists.


def _payload(row: Any) -> dict[str, Any]:
    """Return the message's payload in the form that the worker uses for sending."""
    payload: dict[str, Any] = orjson.loads(row.payload or "{}")
    if row.campaign_key is None or row.attributes is None or not payload:
        return payload
    return personalize_payload(payload, orjson.loads(row.attributes), row.to_email, row.name)


def _links(pages: WebViewSettings, row: Any, outbox_id: str) -> RecipientLinks:
    tokens = pages.tokens.for_tenant(row.tenant_id)
    signed = tokens.for_test() if orjson.loads(row.payload or "{}").get(IS_TEST) else tokens
    token = signed.make(row.to_email, row.list_key or GENERAL)
    tenant = None if row.tenant_id == FIRST_TENANT else row.tenant
    return RecipientLinks(
        unsubscribe_link(pages.unsubscribe_url, token, tenant, outbox_id),
        unsubscribe_link(f"{pages.public_url}/preferences", token, tenant, outbox_id),
        web_view_link(pages.public_url, pages.views, outbox_id),
    )
