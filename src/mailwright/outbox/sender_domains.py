"""Sender domains: the domains of tenants, their DKIM keys and the results of their DNS checks."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain import address
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.dkim_rotation import DomainKey, KeyState, keys_in
from mailwright.domain.dns_records import DnsRecord, DnsResult, DnsState, RecordPurpose
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sender_policy import InstallationSenders, SenderPolicy, TenantDomain
from mailwright.outbox.installation_values import load_value, store_value
from mailwright.storage.database import PROMPT_SECONDS, Database, Transaction
from mailwright.storage.tables import sender_domains, tenants

MAX_DOMAINS: Final = 100
# The maximum age of the cached sender domains.
REFRESH_AFTER: Final[Instant] = SECOND
_VERSION: Final = "sender_domains_version"


class DomainExists(NotPossibleNow):
    """The tenant already has this sender domain."""

    code = "DOMAIN_EXISTS"


class DomainTaken(NotPossibleNow):
    """Another tenant has verified this domain."""

    code = "DOMAIN_TAKEN"

    def __init__(self, domain: str) -> None:
        super().__init__(
            "Another tenant has verified {domain}, so it cannot be verified here until that tenant "
            "deletes it. If it is yours, ask an administrator of the installation.",
            domain=address.both_forms(domain),
        )


class TooManyDomains(NotPossibleNow):
    """A tenant can have at most 100 sender domains."""

    code = "TOO_MANY_DOMAINS"


@dataclass(frozen=True, slots=True)
class SenderDomain:
    id: int
    tenant_id: int
    domain: str
    sender: str  # The tenant's default From address.
    keys: tuple[DomainKey, ...]
    verified_at: Instant | None
    checked_at: Instant | None
    results: tuple[DnsResult, ...]
    return_path: str | None
    created_at: Instant
    updated_at: Instant

    @property
    def is_verified(self) -> bool:
        return self.verified_at is not None

    @property
    def state(self) -> str:
        return "verified" if self.is_verified else "pending"

    @property
    def is_rotating(self) -> bool:
        """Whether new keys wait for their DNS records while the old ones sign."""
        return self.is_verified and bool(keys_in(self.keys, KeyState.NEW))

    @property
    def lacks_signing_records(self) -> bool:
        """Whether the last check found that the record of a signing key is missing."""
        signing = {key.record for key in keys_in(self.keys, KeyState.ACTIVE)}
        gone = (DnsState.MISSING, DnsState.WRONG)
        return any(each.record.value in signing and each.state in gone for each in self.results)

    @property
    def missing(self) -> str:
        """Why the domain is not verified, as the end of a sentence."""
        unmet = [each for each in self.results if each.record.is_required and each.state is not DnsState.OK]
        if unmet:
            detail = unmet[0].detail.rstrip(".")
            return detail[0].lower() + detail[1:]
        return f"the TXT record {key_name(self.keys[0], self.domain)} was not found yet"

    @property
    def signing(self) -> TenantDomain:
        active = tuple(keys_in(self.keys, KeyState.ACTIVE))
        return TenantDomain(
            self.id,
            self.tenant_id,
            self.domain,
            self.sender,
            self.is_verified,
            self.created_at,
            active,
            "" if self.is_verified else self.missing,
            self.return_path,
        )


def key_name(key: DomainKey, domain: str) -> str:
    """Return the name of a key's TXT record."""
    return f"{key.selector}._domainkey.{domain}"


async def insert_domain(
    tx: Transaction, tenant_id: int, domain: str, *, sender: str, keys: Sequence[DomainKey], now: Instant
) -> SenderDomain:
    mine = sender_domains.c.tenant_id == tenant_id
    count = (await tx.execute(select(func.count()).select_from(sender_domains).where(mine)))[0][0]
    if count >= MAX_DOMAINS:
        raise TooManyDomains
    values = {"tenant_id": tenant_id, "domain": domain, "sender": sender, "results": "[]"}
    values |= {"keys": orjson.dumps(list(keys)).decode(), "created_at": now, "updated_at": now}
    rows = await tx.execute(insert(sender_domains).values(**values).returning(sender_domains))
    await _announce(tx)
    return _domain_of(rows[0])


async def change_domain(tx: Transaction, domain: SenderDomain, now: Instant, **changes: Any) -> SenderDomain:
    """Store the changed fields of a domain that the transaction has locked."""
    for name in ("keys", "results"):
        if name in changes:
            changes[name] = orjson.dumps([asdict(each) for each in changes[name]]).decode()
    matching = sender_domains.c.id == domain.id
    query = update(sender_domains).where(matching).values(**changes, updated_at=now).returning(sender_domains)
    try:
        rows = await tx.execute(query)
    except IntegrityError as error:
        raise DomainTaken(domain.domain) from error
    await _announce(tx)
    return _domain_of(rows[0])


async def delete_domain(tx: Transaction, domain: SenderDomain) -> None:
    await tx.execute(delete(sender_domains).where(sender_domains.c.id == domain.id))
    await _announce(tx)


async def find_domain(tx: Transaction, tenant_id: int, domain: str, *, for_update: bool = False) -> SenderDomain:
    query = select(sender_domains).where(_is(tenant_id, domain))
    rows = await tx.execute(query.with_for_update() if for_update else query)
    if not rows:
        raise NotFound("There is no sender domain {domain}.", domain=repr(domain[:253]))
    return _domain_of(rows[0])


async def is_taken(tx: Transaction, domain: SenderDomain) -> bool:
    """Return whether another tenant has verified a domain with this name."""
    d = sender_domains.c
    same = (d.domain == domain.domain, d.id != domain.id, d.verified_at.is_not(None))
    return bool(await tx.execute(select(d.id).where(*same).limit(1)))


async def list_domains(tx: Transaction, tenant_id: int | None) -> list[SenderDomain]:
    """List the domains of a tenant by name; of all tenants if `tenant_id` is None."""
    query = select(sender_domains).order_by(sender_domains.c.domain, sender_domains.c.id)
    if tenant_id is not None:
        query = query.where(sender_domains.c.tenant_id == tenant_id)
    return [_domain_of(row) for row in await tx.execute(query)]


async def list_unchecked(tx: Transaction, before: Instant) -> list[SenderDomain]:
    """List the domains that were not checked since a time, longest ago first."""
    checked = sender_domains.c.checked_at
    query = select(sender_domains).where(or_(checked.is_(None), checked < before))
    return [_domain_of(row) for row in await tx.execute(query.order_by(func.coalesce(checked, 0)))]


async def restrict_senders(tx: Transaction, domain: SenderDomain) -> None:
    """Remember that the tenant has verified a domain: it stays restricted to verified domains after its deletion."""
    since = func.coalesce(tenants.c.senders_restricted_since, domain.created_at)
    await tx.execute(update(tenants).where(tenants.c.id == domain.tenant_id).values(senders_restricted_since=since))


async def unrestrict_senders(tx: Transaction, tenant_id: int) -> None:
    await tx.execute(update(tenants).where(tenants.c.id == tenant_id).values(senders_restricted_since=None))
    await _announce(tx)


async def load_restricted(tx: Transaction) -> dict[int, Instant]:
    """Return the tenants that are restricted to verified domains, and since when."""
    since = tenants.c.senders_restricted_since
    return {row.id: row.since for row in await tx.execute(select(tenants.c.id, since.label("since")).where(since > 0))}


async def _find_second_tenant(tx: Transaction) -> Instant | None:
    """Return when the second tenant was created, or None if there is only one."""
    t = tenants.c
    rows = await tx.execute(select(t.created_at).order_by(t.created_at, t.id).limit(2))
    return rows[1].created_at if len(rows) > 1 else None


def _is(tenant_id: int, domain: str) -> ColumnElement[bool]:
    return and_(sender_domains.c.tenant_id == tenant_id, sender_domains.c.domain == domain)


async def _announce(tx: Transaction) -> None:
    await store_value(tx, _VERSION, secrets.token_hex(8))


def _domain_of(row: Any) -> SenderDomain:
    fields = dict(row._mapping)
    fields["keys"] = tuple(DomainKey(**key) for key in orjson.loads(fields["keys"]))
    fields["results"] = tuple(_result(value) for value in orjson.loads(fields["results"]))
    return SenderDomain(**fields)


def _result(value: dict[str, Any]) -> DnsResult:
    record = value["record"]
    purpose = RecordPurpose(record["purpose"])
    return DnsResult(DnsRecord(**{**record, "purpose": purpose}), DnsState(value["state"]), value["detail"])


class SenderDirectory:
    """The sender domains of all tenants, for everything that accepts or sends email. It is at most a second old."""

    def __init__(self, database: Database, clock: Clock, installation_senders: InstallationSenders) -> None:
        self._database = database
        self._clock = clock
        self._installation = installation_senders
        self._policy = SenderPolicy(installation_senders)
        self._version: tuple[str | None, Instant | None] | None = None
        self._fresh_until: Instant | None = None
        self._loading = asyncio.Lock()

    async def current(self) -> SenderPolicy:
        if not self._is_fresh():
            async with self._loading:
                if not self._is_fresh():
                    await self._load()
        return self._policy

    async def refusal(self, tenant_id: int, sender: str | None = None) -> str | None:
        """Return why the tenant must not send from this address, or from its default sender if there is no address.

        Return None if it may.
        """
        policy = await self.current()
        return policy.refusal(tenant_id, sender or policy.default_sender(tenant_id))

    async def own_sender(self, tenant_id: int) -> str | None:
        """Return the tenant's default From address; None if the installation's applies."""
        return (await self.current()).own_sender(tenant_id)

    async def is_signed(self, sender: str) -> bool:
        """Return whether keys of a tenant's domain sign email from this sender."""
        email = address.split_mailbox(sender)[1]
        return (await self.current()).owner_of(address.domain_of(email)) is not None

    async def default_sender(self, tenant_id: int) -> str:
        """Return the tenant's default From address, for email without a sender."""
        return (await self.current()).default_sender(tenant_id)

    def expire(self) -> None:
        """Load the domains again before their next use, because this process has changed them."""
        self._fresh_until = None

    def _is_fresh(self) -> bool:
        return self._fresh_until is not None and self._clock.now() < self._fresh_until

    async def _load(self) -> None:
        now = self._clock.now()
        async with self._database.read(within=PROMPT_SECONDS) as tx:
            several_since = await _find_second_tenant(tx)
            version = (await load_value(tx, _VERSION), several_since)
            if version != self._version:
                domains = [each.signing for each in await list_domains(tx, None)]
                self._policy = SenderPolicy(self._installation, domains, await load_restricted(tx), several_since)
                self._version = version
        self._fresh_until = now + REFRESH_AFTER
