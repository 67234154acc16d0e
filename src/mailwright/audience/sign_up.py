"""Signing up: anybody may type anybody's address into an open form, so it tells nothing, and writes to few.

Whoever is on the list already, has left it or is unknown gets the same answer. Whoever has left is asked by mail first,
whatever the list says: a stranger must not undo that. One place on the network is heard so many times an hour, counted
without a cookie and without keeping its address.
"""

from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
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
from mailwright.domain import address
from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.permits import LimitWindow
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import subscriptions, suppressions

SOURCE: Final = "sign-up"
# An office behind one address signs up its people in a day; a program would do it in a second.
PER_HOUR: Final = 20


class SignUpResult(Enum):
    """What the form can say. None of these depends on who is on the list."""

    ACCEPTED = auto()
    INVALID_ADDRESS = auto()
    RATE_LIMITED = auto()


@dataclass(frozen=True, slots=True)
class SignUpRequest:
    """What came with the form. `trap` is a field that people do not see: whoever fills it in is a program."""

    email: str
    origin: str  # the network address that it came from
    locale: str | None = None
    trap: str = ""


class SignUpService:
    def __init__(self, database: Database, clock: Clock, double_opt_in: DoubleOptIn, secret: str) -> None:
        """`secret` hides the network addresses that are counted."""
        self._database = database
        self._clock = clock
        self._opting_in = double_opt_in
        self._ledger = DatabaseLedger(database, clock)
        self._secret = secret.encode()[:64]

    async def take(self, tenant_id: int, list_key: str, wish: SignUpRequest) -> SignUpResult:
        """The list is public, as whoever asks has made sure."""
        try:
            email = address.normal(wish.email.strip())
        except address.InvalidAddress:
            return SignUpResult.INVALID_ADDRESS
        if not await self._is_heard(wish.origin):
            return SignUpResult.RATE_LIMITED
        if not wish.trap:
            await self._join(DoubleOptInRequest(tenant_id, email, list_key), wish.locale)
        return SignUpResult.ACCEPTED

    async def _join(self, joining: DoubleOptInRequest, locale: str | None) -> None:
        now = self._clock.now()
        async with self._database.write() as tx:
            await lists.require(tx, joining.tenant_id, joining.list_key)
            await status.lock_contact(tx, joining.tenant_id, joining.email, now)
            asks = await requires_confirmation(tx, joining.tenant_id, joining.list_key) or await _has_left(tx, joining)
            if asks:
                await self._opting_in.ask(tx, joining, source=SOURCE, locale=locale)
                return
            person = (joining.tenant_id, [joining.email], joining.list_key)
            async with status.recording_subscription_events(
                tx, joining.tenant_id, joining.email, source=SOURCE, now=now
            ):
                await status.subscribe(tx, *person, source=SOURCE, now=now)
            await set_missing_locale(tx, joining, locale)

    async def _is_heard(self, origin: str) -> bool:
        number = self._clock.now() // HOUR
        ends = (number + 1) * HOUR
        digest = blake2b(_network(origin).encode(), key=self._secret, digest_size=12).hexdigest()
        turn = LimitWindow(f"mailer:sign-up:{number}:{digest}", PER_HOUR, ends, "sign_up", ends)
        return (await self._ledger.reserve((turn,), 1)).count == 1


def _network(origin: str) -> str:
    """A household has a whole /64 of the newer kind of addresses to choose from."""
    try:
        found = ip_address(origin)
    except ValueError:
        return origin[:64]
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Address(int(found) >> 64 << 64))
    return str(found)


async def _has_left(tx: Transaction, joining: DoubleOptInRequest) -> bool:
    """This list, or everything; by themselves or because someone said so."""
    s = suppressions.c
    scopes = and_(s.list_key.in_([joining.list_key, lists.GENERAL]), s.email == joining.email)
    if await tx.execute(select(s.id).where(scopes, s.tenant_id == joining.tenant_id)):
        return True
    gone = and_(subscription_condition(joining), subscriptions.c.unsubscribed_at.is_not(None))
    return bool(await tx.execute(select(subscriptions.c.id).where(gone)))
