"""Add, check, rotate and delete the sender domains of tenants."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy.exc import IntegrityError

from mailwright.app.dns_lookup import Lookup, make_lookup
from mailwright.app.named_providers import load_named
from mailwright.app.public_suffixes import is_public_suffix
from mailwright.app.sender_domain_records import check_records, records_of, return_path_domain
from mailwright.app.spf import SpfAdvice, spf_advice
from mailwright.app.turns import has_turn
from mailwright.content.headers import find_unwritable
from mailwright.domain import address
from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.dkim_rotation import (
    DomainKey,
    KeyState,
    activate,
    activate_visible,
    add_generation,
    keys_in,
)
from mailwright.domain.dns_records import DnsRecord, DnsResult, DnsState, RecordPurpose
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sender_domains import is_same_or_below
from mailwright.domain.sender_policy import known_domain, parse_domain
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox import audit_log, tenants
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.sender_domains import (
    DomainExists,
    DomainTaken,
    SenderDirectory,
    SenderDomain,
    change_domain,
    delete_domain,
    find_domain,
    insert_domain,
    is_taken,
    key_name,
    list_domains,
    list_unchecked,
    load_restricted,
    restrict_senders,
    unrestrict_senders,
)
from mailwright.storage.database import Database, Transaction

log = logger(__name__)

TICK_SECONDS: Final = 30.0
# The intervals between checks of a domain that waits for DNS records: on the first day, and after it. Other domains are
# checked daily.
WAITING_EVERY: Final = 5 * MINUTE
LONG_WAITING_EVERY: Final = HOUR


@dataclass(frozen=True, slots=True)
class RestrictedTenant:
    """A tenant that had a verified domain and has none left."""

    tenant_id: int
    name: str
    since: Instant


class SenderDomainService:
    def __init__(
        self,
        settings: Settings,
        database: Database,
        clock: Clock,
        directory: SenderDirectory | None = None,
        look_up: Lookup | None = None,
    ) -> None:
        """`directory` is the cache of sender domains in this process.

        Other processes notice a change within a second.
        """
        self._settings = settings
        self._database = database
        self._clock = clock
        self._directory = directory
        self._look_up = look_up or make_lookup(settings.dns_servers)

    async def add(self, tenant_id: int, name: str, *, sender: str | None = None, actor: str) -> SenderDomain:
        """Add a domain with new keys. From now on the tenant sends only from its verified domains."""
        domain, now = _parse(name), self._clock.now()
        own_sender = self._sender(domain, sender)
        created = await asyncio.to_thread(_create_keys, domain, now)
        try:
            async with self._database.write() as tx:
                keys = await self._encrypted(tx, created)
                made = await insert_domain(tx, tenant_id, domain, sender=own_sender, keys=keys, now=now)
                await self._record(tx, actor, "add", made)
        except IntegrityError as error:
            raise DomainExists(
                "The domain {domain} is already one of the sender domains.", field="name", domain=domain
            ) from error
        self._expire()
        return made

    async def list_all(self, tenant_id: int) -> list[SenderDomain]:
        async with self._database.read() as tx:
            return await list_domains(tx, tenant_id)

    async def find(self, tenant_id: int, name: str) -> SenderDomain:
        async with self._database.read() as tx:
            return await find_domain(tx, tenant_id, known_domain(name))

    async def records(self, domain: SenderDomain) -> list[DnsResult]:
        """Return the records to publish, with the result of the last check."""
        found = {(each.record.type, each.record.name, each.record.value): each for each in domain.results}
        unchecked = DnsState.UNKNOWN, "Not checked yet."
        return [
            found.get((record.type, record.name, record.value)) or DnsResult(record, *unchecked)
            for record in await self._records(domain)
        ]

    async def notes(self, domain: SenderDomain) -> list[str]:
        """Return why the domain cannot be verified, and notes about records that are not required."""
        found = (await self.find_conflict(domain), (await self.spf(domain)).note)
        return [each for each in found if each]

    async def find_conflict(self, domain: SenderDomain) -> str | None:
        """Return a message if another tenant has verified the domain, without naming that tenant; otherwise None."""
        async with self._database.read() as tx:
            return str(DomainTaken(domain.domain)) if await is_taken(tx, domain) else None

    async def check(self, tenant_id: int, name: str, *, actor: str) -> SenderDomain:
        """Look up the records and store the results. New keys sign as soon as their records are visible.

        A domain that another tenant has verified stays pending, and no key of it signs.
        """
        before = await self.find(tenant_id, name)
        results = await check_records(await self._records(before), self._look_up)
        now = self._clock.now()
        async with self._database.write() as tx:
            locked = await find_domain(tx, tenant_id, before.domain, for_update=True)
            keys = activate_visible(locked.keys, _visible(locked, results), now)
            taken = keys != locked.keys and await is_taken(tx, locked)
            if taken:
                keys = locked.keys
            changes: dict[str, object] = {"keys": keys, "results": results, "checked_at": now}
            changes["return_path"] = self._return_path(locked, results)
            if locked.verified_at is None and keys_in(keys, KeyState.ACTIVE):
                changes["verified_at"] = now
            after = await change_domain(tx, locked, now, **changes)
            if after.is_verified and not locked.is_verified:
                await restrict_senders(tx, after)
                await self._record(tx, actor, "verify", after)
            elif keys != locked.keys:
                await self._record(tx, actor, "activate", after)
        self._expire()
        if taken:
            raise DomainTaken(after.domain)
        return after

    async def rotate(self, tenant_id: int, name: str, *, force: bool = False, actor: str) -> SenderDomain:
        """Create new keys.

        The old keys sign until a check finds the new records. With `force`, the new keys sign at once.
        """
        found = await self.find(tenant_id, name)
        now = self._clock.now()
        created = await asyncio.to_thread(_create_keys, found.domain, now)
        async with self._database.write() as tx:
            locked = await find_domain(tx, tenant_id, found.domain, for_update=True)
            if not locked.is_verified:
                raise NotPossibleNow(
                    "The domain {domain} is not verified yet, so its first keys are not in use.", domain=locked.domain
                )
            if locked.is_rotating and not force:
                raise NotPossibleNow(
                    "The last rotation of {domain} waits for the TXT record {keys}. Publish it, or force the rotation.",
                    domain=locked.domain,
                    keys=key_name(locked.keys[0], locked.domain),
                )
            keys = locked.keys
            if not locked.is_rotating:
                keys = add_generation(keys, await self._encrypted(tx, created))
            after = await change_domain(tx, locked, now, keys=activate(keys, now) if force else keys)
            await self._record(tx, actor, "rotate", after, force=force)
        self._expire()
        return after

    async def delete(self, tenant_id: int, name: str, *, actor: str) -> None:
        """Delete a domain and its keys. Messages from it that are not sent yet are refused.

        The tenant stays restricted to verified domains: without one, it sends nothing until `unrestrict`.
        """
        async with self._database.write() as tx:
            locked = await find_domain(tx, tenant_id, known_domain(name), for_update=True)
            if locked.is_verified:
                await restrict_senders(tx, locked)
            await delete_domain(tx, locked)
            await self._record(tx, actor, "delete", locked)
        self._expire()

    async def list_restricted(self) -> list[RestrictedTenant]:
        """List the tenants that send nothing, because they had a verified domain and have none left."""
        async with self._database.read() as tx:
            since, domains = await load_restricted(tx), await list_domains(tx, None)
        verified = {each.tenant_id for each in domains if each.is_verified}
        return [
            RestrictedTenant(each.id, each.name, since[each.id])
            for each in await tenants.list_all(self._database)
            if each.id in since.keys() - verified
        ]

    async def unrestrict(self, tenant: str, *, actor: str) -> None:
        """Let a tenant without verified domains send again from every domain that no other tenant has verified.

        Only administrators of the installation may do this, so that a tenant cannot lift its own restriction.
        """
        found = next((each for each in await self.list_restricted() if each.name == tenant), None)
        if found is None:
            owner = await tenants.find(self._database, tenant)
            raise NotFound(
                "The tenant {name} sends without a restriction, or has a verified domain. There is nothing to lift.",
                field="tenant",
                name=owner.name,
            )
        async with self._database.write() as tx:
            await unrestrict_senders(tx, found.tenant_id)
            await audit_log.record(
                tx,
                self._clock.now(),
                actor=actor,
                action="domain.unrestrict",
                subject=found.name,
                tenant_id=found.tenant_id,
            )
        self._expire()

    async def check_due(self) -> None:
        """Check the domains whose last check is too old. If one check fails, the others still run."""
        now = self._clock.now()
        async with self._database.read() as tx:
            found = [each for each in await list_unchecked(tx, now - WAITING_EVERY) if _is_due(each, now)]
        for each in found:
            try:
                await self.check(each.tenant_id, each.domain, actor=audit_log.SYSTEM)
            except MailwrightError as error:
                log.warning("sender_domain_not_checked", domain=each.domain, code=error.code, reason=str(error))

    def _expire(self) -> None:
        if self._directory is not None:
            self._directory.expire()

    async def _records(self, domain: SenderDomain) -> list[DnsRecord]:
        host = await tenants.find_tracking_host(self._database, domain.tenant_id)
        return records_of(domain, self._settings, await self.spf(domain), host)

    async def spf(self, domain: SenderDomain) -> SpfAdvice:
        """Return the SPF mechanisms that all providers of the tenant need."""
        named = await load_named(self._database, self._settings)
        return spf_advice(named.settings_of(domain.tenant_id, self._settings), domain.domain)

    def _sender(self, domain: str, given: str | None) -> str:
        """Return the default sender of the domain: the given address, or the local part of the installation's sender at
        this domain.
        """
        if given is None:
            local = address.split_mailbox(self._settings.sender)[1].rpartition("@")[0]
            return f"{local}@{domain}"
        try:
            found = address.parse(address.split_mailbox(given)[1])[1]
        except address.InvalidAddress as error:
            raise InvalidInput(
                "{given} is not a sender: {error}", field="sender", given=repr(given[:120]), error=error
            ) from error
        if (unwritable := find_unwritable(given)) is not None:
            raise InvalidInput("remove {unwritable} from the name", field="sender", unwritable=unwritable)
        if not is_same_or_below(found, domain):
            raise InvalidInput("must be an address of {domain}, such as news@{domain}", field="sender", domain=domain)
        return given

    def _return_path(self, domain: SenderDomain, results: Sequence[DnsResult]) -> str | None:
        """Return the return path if its records are visible.

        If a lookup fails, the previous result stays. If only the owner can know the right SPF value, the MX record
        alone decides.
        """
        wanted = return_path_domain(self._settings, domain.domain)
        own = [each for each in results if each.record.purpose is RecordPurpose.RETURN_PATH]
        states = {each.state for each in own if each.state is not DnsState.UNKNOWN or not each.record.hint}
        if wanted is None or states & {DnsState.MISSING, DnsState.WRONG}:
            return None
        return domain.return_path if DnsState.UNKNOWN in states else wanted

    async def _encrypted(self, tx: Transaction, keys: Sequence[DomainKey]) -> list[DomainKey]:
        box = self._database.secret_box
        return [replace(key, private_key=await box.encrypt(tx, key.private_key or "")) for key in keys]

    async def _record(self, tx: Transaction, actor: str, action: str, domain: SenderDomain, **detail: object) -> None:
        selectors = [key.selector for key in domain.keys if key.state is not KeyState.RETIRED]
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"domain.{action}",
            subject=domain.domain,
            tenant_id=domain.tenant_id,
            detail={"selectors": selectors, **detail},
        )


async def run_domain_checks(domains: SenderDomainService, database: Database, clock: Clock) -> None:
    """Check sender domains in the background, in one process at a time, until cancelled."""
    ledger = DatabaseLedger(database, clock)

    async def tick() -> None:
        if await has_turn("sender-domains", MINUTE, ledger, clock):
            await domains.check_due()

    await run_periodically("sender_domains", tick, seconds=TICK_SECONDS)


def _is_due(domain: SenderDomain, now: Instant) -> bool:
    if domain.checked_at is None:
        return True
    waiting_since = max((key.created_at for key in keys_in(domain.keys, KeyState.NEW)), default=None)
    if waiting_since is None:
        return now - domain.checked_at >= DAY
    return now - domain.checked_at >= (WAITING_EVERY if now - waiting_since < DAY else LONG_WAITING_EVERY)


def _visible(domain: SenderDomain, results: Sequence[DnsResult]) -> set[str]:
    """Return the selectors whose records publish their keys."""
    published = {(each.record.name, each.record.value) for each in results if each.state is DnsState.OK}
    return {key.selector for key in domain.keys if (key_name(key, domain.domain), key.record) in published}


def _parse(name: str) -> str:
    try:
        domain = parse_domain(name)
    except address.InvalidAddress as error:
        raise InvalidInput(
            "{name} is not a domain: {error}", field="name", name=repr(name[:120]), error=error
        ) from error
    if is_public_suffix(domain):
        raise InvalidInput(
            "Anybody can register a domain under {domain}, so it cannot belong to one tenant. Add the domain that you "
            "registered, for example acme.{domain}.",
            field="name",
            domain=address.readable(domain),
        )
    return domain


def _create_keys(domain: str, now: Instant) -> list[DomainKey]:
    """Create an RSA key, which every receiver can verify, and an Ed25519 key. Their selectors are never used again."""
    from mailwright.content.dkim_key import DkimKey, new_private_key  # noqa: PLC0415 - large, and rarely needed

    generation = secrets.token_hex(4)
    keys = []
    for algorithm in ("rsa", "ed25519"):
        pem, selector = new_private_key(algorithm), f"mw{algorithm[0]}{generation}"
        record = DkimKey.load(pem, domain, selector, is_ours=True).record()
        keys.append(DomainKey(selector, algorithm, record, now, private_key=pem))
    return keys
