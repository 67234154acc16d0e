"""Opting in: whoever is put on a list that asks for it gets one mail with a link, and no other before they follow it.

The subscription waits until then: `audience` does not count it, and what they left stays left. The mail goes through
the outbox like any other. Asking again sends it again, but at most once in a few minutes, so that nobody's mailbox
can be filled from a form.
"""

from dataclasses import dataclass
from html import escape
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, insert, select, update

from mailwright.audience import lists, status
from mailwright.audience.confirmation_texts import text_for
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.ids import uuid7
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT, UnsubscribeTokens, unsubscribe_link
from mailwright.outbox.accept import accept
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, subscriptions, tenants
from mailwright.storage.tables import lists as lists_table

SOURCE: Final = "opt-in"
PAGE: Final = "confirm"
# One mail in so long a time, however often somebody asks.
RESEND_INTERVAL: Final[Instant] = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class DoubleOptInRequest:
    """Who wants to be on which list."""

    tenant_id: int
    email: str  # in normal form
    list_key: str


@dataclass(frozen=True, slots=True)
class ConfirmationLinks:
    """What the link in the mail is made of."""

    public_url: str
    tokens: UnsubscribeTokens

    def for_confirmation(self, joining: DoubleOptInRequest, tenant: str) -> str:
        token = confirmation_tokens(self.tokens, joining.tenant_id).make(joining.email, joining.list_key)
        is_first = joining.tenant_id == FIRST_TENANT
        return unsubscribe_link(f"{self.public_url}/{PAGE}", token, None if is_first else tenant)


def confirmation_tokens(tokens: UnsubscribeTokens, tenant_id: int) -> UnsubscribeTokens:
    """Tokens that confirm: they never make anybody leave, and a token to leave never confirms."""
    return tokens.for_tenant(tenant_id).for_confirmation()


class DoubleOptIn:
    def __init__(self, database: Database, clock: Clock, links: ConfirmationLinks) -> None:
        self._database = database
        self._clock = clock
        self._links = links

    async def subscribe(
        self, tenant_id: int, email: str, list_key: str, *, source: str, actor: str | None = None
    ) -> bool:
        """Puts a person on a list; whether they have to confirm first. Whoever is on it already is asked nothing.

        An `actor` is noted in the journal.
        """
        joining, now = DoubleOptInRequest(tenant_id, status.normalize_email(email), list_key), self._clock.now()
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            await status.record_audit_entry(
                tx, now, tenant_id, joining.email, actor=actor, action="contact.subscribe", list_key=list_key
            )
            if not await requires_confirmation(tx, tenant_id, list_key):
                await status.subscribe(tx, tenant_id, [joining.email], list_key, source=source, now=now)
                return False
            return await self.ask(tx, joining, source=source)

    async def ask(
        self, tx: Transaction, joining: DoubleOptInRequest, *, source: str, locale: str | None = None
    ) -> bool:
        """Whatever the list says. Whether they have to confirm: whoever is on the list already is asked nothing."""
        now = self._clock.now()
        # Held before anything is read: whoever asks at the same moment sees that this one has asked.
        await status.ensure_contacts(tx, [(joining.tenant_id, joining.email)], now)
        if await _is_on(tx, joining):
            return False
        if await _wait(tx, joining, source, now):
            await set_missing_locale(tx, joining, locale)
            await accept(tx, [await self._mail(tx, joining, now)], now)
        return True

    async def confirm(self, tenant_id: int, email: str, list_key: str) -> bool:
        """Whether the person is on the list now. An old mail does not put back whoever has confirmed and left since."""
        joining, now = DoubleOptInRequest(tenant_id, status.normalize_email(email), list_key), self._clock.now()
        async with self._database.write() as tx:
            await status.lock_contact(tx, tenant_id, joining.email, now)
            waiting = and_(subscription_condition(joining), subscriptions.c.is_pending.is_(True))
            if await tx.execute(select(subscriptions.c.id).where(waiting)):
                async with status.recording_subscription_events(tx, tenant_id, joining.email, source=SOURCE, now=now):
                    await status.subscribe(tx, tenant_id, [joining.email], list_key, source=SOURCE, now=now)
                await tx.execute(update(subscriptions).where(subscription_condition(joining)).values(confirmed_at=now))
            return await _is_on(tx, joining)

    async def _mail(self, tx: Transaction, joining: DoubleOptInRequest, now: Instant) -> NewMessage:
        row = await _about(tx, joining)
        text, link = text_for(row.locale), self._links.for_confirmation(joining, row.tenant)
        asks, subject = text.asks.format(list=row.name), text.subject.format(list=row.name)
        html = (
            f"<p>{escape(asks)}</p>"
            f'<p><a href="{escape(link)}">{escape(text.button)}</a></p>'
            f"<p>{escape(text.otherwise)}</p>"
        )
        plain = f"{asks}\n\n{text.button}: {link}\n\n{text.otherwise}\n"
        message_id = uuid7(now)
        return NewMessage(
            outbox_id=message_id,
            tenant_id=joining.tenant_id,
            source=Source.API,
            request_id=f"{SOURCE}-{message_id}",
            to_email=joining.email,
            subject=subject,
            payload={"to": joining.email, "subject": subject, "html": html, "text": plain},
        )


async def requires_confirmation(tx: Transaction, tenant_id: int, list_key: str) -> bool:
    mine = and_(lists_table.c.tenant_id == tenant_id, lists_table.c.list_key == list_key)
    rows = await tx.execute(select(lists_table.c.requires_confirmation).where(mine))
    return bool(rows and rows[0].requires_confirmation)


async def set_missing_locale(tx: Transaction, joining: DoubleOptInRequest, locale: str | None) -> None:
    """The language that a person used, where they have chosen none."""
    if locale is not None:
        mine = and_(contacts.c.tenant_id == joining.tenant_id, contacts.c.email == joining.email)
        await tx.execute(update(contacts).where(mine, contacts.c.locale.is_(None)).values(locale=locale))


async def _wait(tx: Transaction, joining: DoubleOptInRequest, source: str, now: Instant) -> bool:
    """The subscription waits for its confirmation; whether it is time to ask for it."""
    found = await tx.execute(select(subscriptions).where(subscription_condition(joining)))
    values = {"is_pending": True, "confirmed_at": None, "subscribed_at": now, "source": source}
    if not found:
        mine = and_(contacts.c.tenant_id == joining.tenant_id, contacts.c.email == joining.email)
        person = (await tx.execute(select(contacts.c.id).where(mine)))[0].id
        named = {"tenant_id": joining.tenant_id, "contact_key": person, "list_key": joining.list_key}
        await tx.execute(insert(subscriptions).values(**named, **values))
        return True
    was_asked = found[0].is_pending and now - (found[0].subscribed_at or 0) < RESEND_INTERVAL
    if not was_asked:
        await tx.execute(update(subscriptions).where(subscription_condition(joining)).values(**values))
    return not was_asked


async def _about(tx: Transaction, joining: DoubleOptInRequest) -> Row[Any]:
    """The names and the language that the mail needs."""
    c, k, t = contacts.c, lists_table.c, tenants.c
    rows = await tx.execute(
        select(k.name, t.name.label("tenant"), c.locale).where(
            and_(k.tenant_id == joining.tenant_id, k.list_key == joining.list_key),
            and_(c.tenant_id == k.tenant_id, c.email == joining.email),
            t.id == k.tenant_id,
        )
    )
    return rows[0]


def subscription_condition(joining: DoubleOptInRequest) -> ColumnElement[bool]:
    mine = (contacts.c.tenant_id == joining.tenant_id, contacts.c.email == joining.email)
    person = select(contacts.c.id).where(*mine).scalar_subquery()
    return and_(subscriptions.c.contact_key == person, subscriptions.c.list_key == joining.list_key)


async def _is_on(tx: Transaction, joining: DoubleOptInRequest) -> bool:
    rows = await tx.execute(
        select(subscriptions.c.id).where(
            subscription_condition(joining),
            subscriptions.c.unsubscribed_at.is_(None),
            subscriptions.c.is_pending.is_(False),
        )
    )
    return bool(rows)
