"""Public sign-up forms. Anyone can enter any address, so a form reveals nothing and causes few emails.

Subscribed, unsubscribed and unknown addresses get the same response. A contact who has unsubscribed must confirm, even
if the list does not require that, because someone else may have filled in the form. Sign-ups are limited per network
and hour, without cookies and without storing network addresses.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from hashlib import blake2b
from typing import Final

from sqlalchemy import and_, select

from mailwright.audience import lists, status
from mailwright.audience.double_opt_in import (
    DoubleOptIn,
    DoubleOptInRequest,
    requires_confirmation,
    set_missing_locale,
    subscription_condition,
)
from mailwright.audience.form_submissions import FormSubmission
from mailwright.domain import address
from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import network_of
from mailwright.domain.permits import LimitWindow
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import subscriptions, suppressions

SOURCE: Final = "sign-up"
# Enough for an office behind one network address, but too few for a script that floods mailboxes.
PER_HOUR: Final = 20


class SignUpResult(Enum):
    """The result that the form shows. It never reveals whether an address is subscribed."""

    ACCEPTED = auto()
    INVALID_ADDRESS = auto()
    UNDELIVERABLE = auto()  # the domain receives no email, or is disposable
    RATE_LIMITED = auto()


@dataclass(frozen=True, slots=True)
class SignUpRequest:
    """A submitted form. `honeypot` is a hidden field that only programs fill in."""

    email: str
    remote_address: str  # the network address of the sender
    locale: str | None = None
    honeypot: str = ""
    consent_wording: str | None = None  # the consent to tracking, which counts only once the contact confirms it
    submission: FormSubmission | None = None  # the answers of a form with fields and consents; always confirmed

    @property
    def has_valid_email(self) -> bool:
        try:
            address.normal(self.email.strip())
        except address.InvalidAddress:
            return False
        return True


class SignUpService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        double_opt_in: DoubleOptIn,
        secret: str,
        can_receive: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        """Create the service. Network addresses are counted as hashes with the key `secret`.

        `can_receive` checks whether an address can receive email.
        """
        self._can_receive = can_receive
        self._database = database
        self._clock = clock
        self._double_opt_in = double_opt_in
        self._ledger = DatabaseLedger(database, clock)
        self._secret = secret.encode()[:64]

    async def submit(self, tenant_id: int, list_key: str, form: SignUpRequest) -> SignUpResult:
        """Accept a form. The caller has checked that the list is public."""
        try:
            email = address.normal(form.email.strip())
        except address.InvalidAddress:
            return SignUpResult.INVALID_ADDRESS
        if not await self._is_within_limit(form.remote_address):
            return SignUpResult.RATE_LIMITED
        if self._can_receive is not None and not await self._can_receive(email):
            return SignUpResult.UNDELIVERABLE
        if not form.honeypot:
            # Anyone can enter any address, so the response does not reveal that it is being erased.
            with suppress(ErasurePending):
                await self._subscribe(DoubleOptInRequest(tenant_id, email, list_key), form)
        return SignUpResult.ACCEPTED

    async def _subscribe(self, request: DoubleOptInRequest, form: SignUpRequest) -> None:
        now = self._clock.now()
        async with self._database.write() as tx:
            await lists.require(tx, request.tenant_id, request.list_key)
            await status.lock_contact(tx, request.tenant_id, request.email, now)
            must_confirm = (
                form.submission is not None
                or await requires_confirmation(tx, request.tenant_id, request.list_key)
                or await _has_unsubscribed(tx, request)
            )
            if must_confirm:
                await self._double_opt_in.request_confirmation(
                    tx,
                    request,
                    source=SOURCE,
                    locale=form.locale,
                    consent_wording=form.consent_wording,
                    submission=form.submission,
                )
                return
            contact = (request.tenant_id, [request.email], request.list_key)
            async with status.recording_subscription_events(
                tx, request.tenant_id, request.email, source=SOURCE, now=now
            ):
                await status.subscribe(tx, *contact, source=SOURCE, now=now)
            await set_missing_locale(tx, request, form.locale)

    async def _is_within_limit(self, remote_address: str) -> bool:
        number = self._clock.now() // HOUR
        ends = (number + 1) * HOUR
        digest = blake2b(network_of(remote_address).encode(), key=self._secret, digest_size=12).hexdigest()
        window = LimitWindow(f"mailwright:sign-up:{number}:{digest}", PER_HOUR, ends, "sign_up", ends)
        return (await self._ledger.reserve((window,), 1)).count == 1


async def _has_unsubscribed(tx: Transaction, request: DoubleOptInRequest) -> bool:
    """Return whether the contact unsubscribed from this list or all bulk email, or an operator suppressed it."""
    s = suppressions.c
    scopes = and_(s.list_key.in_([request.list_key, lists.GENERAL]), s.email == request.email)
    if await tx.execute(select(s.id).where(scopes, s.tenant_id == request.tenant_id)):
        return True
    gone = and_(subscription_condition(request), subscriptions.c.unsubscribed_at.is_not(None))
    return bool(await tx.execute(select(subscriptions.c.id).where(gone)))
