"""The audience of a mailout: subscribers in Supabase or, without Supabase, contacts of Mailwright."""

from collections.abc import AsyncIterator
from typing import Protocol

from sqlalchemy import select

from mailwright.audience import lists
from mailwright.audience.eligibility import Exclusion, exclusion, is_excluded
from mailwright.audience.segments import audience
from mailwright.domain.address import InvalidAddress
from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.addresses import normalise
from mailwright.sources.mailouts.refusals import unknown_list
from mailwright.sources.mailouts.supabase import InactiveSubscriber, Subscriber, Supabase
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts

PAGE = 5_000


@dataclass(frozen=True, slots=True)
class AudienceMember:
    """A subscriber with the address as it is stored. `excluded` is the reason not to send to it, if any."""

    email: str
    from_name: str | None = None
    excluded: str | None = None


class MailoutAudience(Protocol):
    """The subscribers that a mailout is sent to. `empty_reason` explains why there may be none."""

    @property
    def empty_reason(self) -> str: ...

    def pages(self, tenant_id: int) -> AsyncIterator[list[AudienceMember]]:
        """Yield all active subscribers, and rows that look active but are excluded."""
        ...

    async def excluded(self, tenant_id: int) -> dict[str, Exclusion]:
        """Return the contacts that belong to the audience but may not receive bulk email, with the reason."""
        ...


class SupabaseAudience:
    """The rows with the status `active`. Addresses that also have a row with another status are excluded."""

    empty_reason = lazy_gettext("no subscriber in Supabase has the status `active`, written exactly like this")

    def __init__(self, supabase: Supabase) -> None:
        self._supabase = supabase

    async def pages(self, tenant_id: int) -> AsyncIterator[list[AudienceMember]]:
        await self._supabase.probe()
        inactive: dict[str, str] = {}
        async for rows in self._supabase.inactive():
            for row in rows:
                _add_reason(inactive, row)
            yield [AudienceMember(row.email, None, _reason(row)) for row in rows if not row.is_known]
        async for page in self._supabase.active():
            yield [_member(each, inactive) for each in page]

    async def excluded(self, tenant_id: int) -> dict[str, Exclusion]:
        """Return nothing, because `pages` already yields the excluded subscribers."""
        return {}


def _add_reason(inactive: dict[str, str], row: InactiveSubscriber) -> None:
    """Record the reason by normalised address. Skip invalid addresses, which are never sent to."""
    try:
        email = normalise(row.email)
    except InvalidAddress:
        return
    if email not in inactive or row.is_known:
        inactive[email] = _reason(row)


def _reason(row: InactiveSubscriber) -> str:
    return (
        Exclusion(row.status) if row.is_known else lazy_gettext("unknown status {status}", status=repr(row.status[:50]))
    )


def _member(subscriber: Subscriber, inactive: dict[str, str]) -> AudienceMember:
    try:
        reason = inactive.get(normalise(subscriber.email))
    except InvalidAddress as error:
        reason = lazy_gettext("invalid address: {error}", error=error)
    return AudienceMember(subscriber.email, subscriber.from_name, reason)


class ContactAudience:
    """The subscribers of one list; without a list, everyone with a subscription or another legal basis."""

    def __init__(self, database: Database, clock: Clock, list_key: str | None = None) -> None:
        self._database = database
        self._clock = clock
        self._list_key = list_key
        self._lists = () if list_key is None else (list_key,)

    @property
    def empty_reason(self) -> str:
        if self._list_key is not None:
            return lazy_gettext(
                "nobody is subscribed to the list {list_key} (MAILWRIGHT_MAILOUT_LIST); set SUPABASE_URL if your "
                "subscribers are in Supabase",
                list_key=self._list_key,
            )
        return lazy_gettext(
            "no contact has an active subscription or another legal basis; set SUPABASE_URL if your subscribers are in "
            "Supabase"
        )

    async def excluded(self, tenant_id: int) -> dict[str, Exclusion]:
        left_out = is_excluded(tenant_id, self._lists, None)
        query = select(contacts.c.email, exclusion(self._lists).label("reason")).where(left_out)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(contacts.c.email))
        return {row.email: Exclusion(row.reason) for row in rows}

    async def pages(self, tenant_id: int) -> AsyncIterator[list[AudienceMember]]:
        await self._check_list(tenant_id)
        last = ""
        while True:
            people = audience(tenant_id, self._lists, None, self._clock.now())
            query = select(contacts.c.email).where(people, contacts.c.email > last).order_by(contacts.c.email)
            async with self._database.read() as tx:
                rows = await tx.execute(query.limit(PAGE))
            if not rows:
                return
            last = rows[-1].email
            yield [AudienceMember(row.email) for row in rows]

    async def _check_list(self, tenant_id: int) -> None:
        """Raise if the configured list does not exist."""
        if self._list_key is None:
            return
        async with self._database.read() as tx:
            if self._list_key not in await lists.existing_keys(tx, tenant_id, [self._list_key]):
                raise unknown_list(self._list_key)
