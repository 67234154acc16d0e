"""Double opt-in: a subscription stays pending until the contact follows the link in the confirmation email.

A pending subscription does not count for audiences, and an earlier unsubscribe stays in effect. The confirmation email
goes through the outbox like any other message. It is sent at most once every few minutes, so that nobody can use a form
to flood a mailbox.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, insert, select, update

from mailwright.audience import lists, status
from mailwright.audience.confirmation_texts import text_for
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.form_submissions import FormSubmission, confirm_submission, store_submission
from mailwright.audience.objections import has_objected
from mailwright.audience.pending_requests import CONFIRMATION_PREFIX
from mailwright.audience.tracking_consent import confirm_consent
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import NewMessage
from mailwright.domain.system_email import SystemEmail
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT, UnsubscribeTokens, unsubscribe_link
from mailwright.outbox.accept import accept
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.outbox.system_emails import RenderSystemEmail, write_system_email
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, subscriptions, tenants
from mailwright.storage.tables import lists as lists_table

SOURCE: Final = "opt-in"
PAGE: Final = "confirm"
# Minimum time between two confirmation emails to the same address.
RESEND_INTERVAL: Final[Instant] = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class DoubleOptInRequest:
    """An address that wants to subscribe to a list."""

    tenant_id: int
    email: str  # normalized
    list_key: str


@dataclass(frozen=True, slots=True)
class ConfirmationLinks:
    """Builds the links of confirmation emails."""

    public_url: str
    tokens: UnsubscribeTokens

    def confirmation_link(
        self, request: DoubleOptInRequest, tenant: str, *, with_consent: bool, submission_id: str | None = None
    ) -> str:
        tokens = self.tokens.for_tenant(request.tenant_id).for_confirmation(with_consent=with_consent)
        token = tokens.make(request.email, request.list_key)
        is_first = request.tenant_id == FIRST_TENANT
        link = unsubscribe_link(f"{self.public_url}/{PAGE}", token, None if is_first else tenant)
        return link if submission_id is None else f"{link}&form={submission_id}"


class DoubleOptIn:
    def __init__(self, database: Database, clock: Clock, links: ConfirmationLinks, render: RenderSystemEmail) -> None:
        self._database = database
        self._clock = clock
        self._links = links
        self._render = render

    async def subscribe(
        self, tenant_id: int, email: str, list_key: str, *, source: str, actor: str | None = None
    ) -> bool:
        """Subscribe an address and return whether it has to confirm first.

        A contact for whom an imported file says no has to confirm: on its list or, if it had none, on any list.
        An `actor` is recorded in the audit log.
        """
        request, now = DoubleOptInRequest(tenant_id, normalize_email(email), list_key), self._clock.now()
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            await status.record_audit_entry(
                tx, now, tenant_id, request.email, actor=actor, action="contact.subscribe", list_key=list_key
            )
            must_confirm = await requires_confirmation(tx, tenant_id, list_key)
            if not must_confirm and not await has_objected(tx, tenant_id, request.email, list_key):
                await status.subscribe(tx, tenant_id, [request.email], list_key, source=source, now=now)
                return False
            return await self.request_confirmation(tx, request, source=source)

    async def request_confirmation(
        self,
        tx: Transaction,
        request: DoubleOptInRequest,
        *,
        source: str,
        locale: str | None = None,
        consent_wording: str | None = None,
        submission: FormSubmission | None = None,
    ) -> bool:
        """Ask for a confirmation, even if the list requires none. Return False if the contact is already subscribed.

        The confirmation email asks for the consent to tracking too if the form contained it. A submission is stored
        only with the email whose link confirms it, so that nobody else can change what the contact confirms.
        """
        now = self._clock.now()
        # Lock the contact before reading, so that a concurrent request sees this one.
        await status.ensure_contacts(tx, [(request.tenant_id, request.email)], now)
        await refuse_erasing(tx, request.tenant_id, [request.email])
        if await _is_subscribed(tx, request):
            return False
        if await _set_pending(tx, request, source, consent_wording, now):
            await set_missing_locale(tx, request, locale)
            if submission is not None:
                await store_submission(tx, request.email, submission, now)
            submission_id = None if submission is None else submission.submission_id
            email = await self._confirmation_email(tx, request, consent_wording, submission_id, now)
            await accept(tx, [email], now)
        return True

    async def confirm(
        self,
        tenant_id: int,
        email: str,
        list_key: str,
        *,
        with_consent: bool = False,
        submission_id: str | None = None,
    ) -> bool:
        """Confirm a pending subscription. Return whether the contact is now subscribed.

        An old link does not undo a later no: an unsubscribe, a complaint, or a no in an imported file.

        `with_consent`: the email with the link contained the wording of the consent to tracking. The consent counts,
        unless a later request (anyone can make one) was without it. `submission_id` names the submitted form that the
        link belongs to.
        """
        request, now = DoubleOptInRequest(tenant_id, normalize_email(email), list_key), self._clock.now()
        async with self._database.write() as tx:
            await status.lock_contact(tx, tenant_id, request.email, now)
            waiting = and_(subscription_condition(request), subscriptions.c.is_pending.is_(True))
            if rows := await tx.execute(select(subscriptions.c.requested_consent).where(waiting)):
                async with status.recording_subscription_events(tx, tenant_id, request.email, source=SOURCE, now=now):
                    await status.lift_objection(tx, tenant_id, request.email, source=SOURCE, now=now)
                    await status.subscribe(tx, tenant_id, [request.email], list_key, source=SOURCE, now=now)
                confirmed = {"confirmed_at": now, "requested_consent": None}
                await tx.execute(update(subscriptions).where(subscription_condition(request)).values(**confirmed))
                if with_consent and (wording := rows[0].requested_consent):
                    await confirm_consent(tx, tenant_id, request.email, wording, now)
                if submission_id is not None:
                    named = {"list_key": list_key, "submission_id": submission_id}
                    await confirm_submission(tx, tenant_id, request.email, **named, now=now)
            return await _is_subscribed(tx, request)

    async def _confirmation_email(
        self,
        tx: Transaction,
        request: DoubleOptInRequest,
        consent_wording: str | None,
        submission_id: str | None,
        now: Instant,
    ) -> NewMessage:
        row = await _load_names(tx, request)
        link = self._links.confirmation_link(
            request, row.tenant, with_consent=consent_wording is not None, submission_id=submission_id
        )
        text = text_for(row.locale)
        body, subject = text.request.format(list=row.name), text.subject.format(list=row.name)
        if consent_wording is not None:
            body = f"{body} {text.consent.format(wording=consent_wording)}"
        content = SystemEmail(body, text.button, link, text.ignore)
        return await write_system_email(
            tx,
            self._render,
            content,
            tenant_id=request.tenant_id,
            to=request.email,
            subject=subject,
            prefix=f"{CONFIRMATION_PREFIX}{request.list_key}-",
            now=now,
        )


async def requires_confirmation(tx: Transaction, tenant_id: int, list_key: str) -> bool:
    matching = and_(lists_table.c.tenant_id == tenant_id, lists_table.c.list_key == list_key)
    rows = await tx.execute(select(lists_table.c.requires_confirmation).where(matching))
    return bool(rows and rows[0].requires_confirmation)


async def set_missing_locale(tx: Transaction, request: DoubleOptInRequest, locale: str | None) -> None:
    """Store the language of the form if the contact has none."""
    if locale is not None:
        matching = and_(contacts.c.tenant_id == request.tenant_id, contacts.c.email == request.email)
        await tx.execute(update(contacts).where(matching, contacts.c.locale.is_(None)).values(locale=locale))


async def _set_pending(
    tx: Transaction, request: DoubleOptInRequest, source: str, consent_wording: str | None, now: Instant
) -> bool:
    """Mark the subscription as pending, and return whether to send the confirmation email now."""
    rows = await tx.execute(select(subscriptions).where(subscription_condition(request)))
    values = {"is_pending": True, "confirmed_at": None, "subscribed_at": now, "source": source}
    values["requested_consent"] = consent_wording
    if not rows:
        matching = and_(contacts.c.tenant_id == request.tenant_id, contacts.c.email == request.email)
        contact_key = (await tx.execute(select(contacts.c.id).where(matching)))[0].id
        named = {"tenant_id": request.tenant_id, "contact_key": contact_key, "list_key": request.list_key}
        await tx.execute(insert(subscriptions).values(**named, **values))
        return True
    was_asked = rows[0].is_pending and now - (rows[0].subscribed_at or 0) < RESEND_INTERVAL
    if was_asked and consent_wording is None:
        # The latest request is without consent, so the link in an earlier email must not give it.
        values = {"requested_consent": None}
    elif was_asked:
        return False
    await tx.execute(update(subscriptions).where(subscription_condition(request)).values(**values))
    return not was_asked


async def _load_names(tx: Transaction, request: DoubleOptInRequest) -> Row[Any]:
    """Load the names and the language for the confirmation email."""
    c, k, t = contacts.c, lists_table.c, tenants.c
    rows = await tx.execute(
        select(k.name, t.name.label("tenant"), c.locale).where(
            and_(k.tenant_id == request.tenant_id, k.list_key == request.list_key),
            and_(c.tenant_id == k.tenant_id, c.email == request.email),
            t.id == k.tenant_id,
        )
    )
    return rows[0]


def subscription_condition(request: DoubleOptInRequest) -> ColumnElement[bool]:
    matching = (contacts.c.tenant_id == request.tenant_id, contacts.c.email == request.email)
    contact_key = select(contacts.c.id).where(*matching).scalar_subquery()
    return and_(subscriptions.c.contact_key == contact_key, subscriptions.c.list_key == request.list_key)


async def _is_subscribed(tx: Transaction, request: DoubleOptInRequest) -> bool:
    rows = await tx.execute(
        select(subscriptions.c.id).where(
            subscription_condition(request),
            subscriptions.c.unsubscribed_at.is_(None),
            subscriptions.c.is_pending.is_(False),
        )
    )
    return bool(rows)
