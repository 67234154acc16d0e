"""Find out whether email leaves this machine. Pages, commands and the API all ask `load_readiness`."""

from collections.abc import Iterator

from sqlalchemy import func, select

from mailwright.app.destinations import destination_of, provider_destination, provider_label
from mailwright.app.named_providers import NamedProvider
from mailwright.app.sender_directory import make_directory
from mailwright.app.sender_dns import is_public_domain
from mailwright.app.sender_rules import is_public_https
from mailwright.app.setup import SetupStep, StepState, load_progress
from mailwright.app.stored_settings import EffectiveSettings, load_effective
from mailwright.domain.clock import Clock
from mailwright.domain.message import Source
from mailwright.domain.sending_readiness import Destination, ReadinessReason, SendingReadiness
from mailwright.domain.tracking import parse_mode, strictest
from mailwright.ops.settings import Settings
from mailwright.outbox.sending_hold import load_hold
from mailwright.outbox.workers import list_present
from mailwright.providers.route import providers_of
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, tenants


async def load_readiness(
    settings: Settings,
    database: Database,
    clock: Clock,
    tenant_id: int,
    *,
    source: Source = Source.CAMPAIGN,
    sender: str | None = None,
    counts_consent: bool = False,
) -> SendingReadiness:
    """Return whether the email of a tenant leaves, with the settings as they are now.

    `sender`: of a campaign with its own. `counts_consent` counts the contacts who consented to tracking.
    """
    effective = await load_effective(settings, database)
    used, named = effective.settings, effective.named.find(tenant_id, source)
    route = used if named is None else named.settings
    directory = make_directory(used, database, clock)
    from_ = sender or await directory.default_sender(tenant_id)
    refusal = await directory.refusal(tenant_id, sender)
    consented = contacts.c.consents_to_tracking.is_(True)
    async with database.read() as tx:
        hold = await load_hold(tx)
        [own] = await tx.execute(select(tenants.c.tracking).where(tenants.c.id == tenant_id))
        consenting: int | None = None
        if counts_consent:
            # The condition of the index. Without it, SQLite reads all contacts.
            is_asked = contacts.c.consents_to_tracking.is_not(None)
            query = select(func.count()).where(contacts.c.tenant_id == tenant_id, is_asked, consented)
            consenting = int((await tx.execute(query))[0][0])
    workers = {each.worker for each in await list_present(database, clock.now()) if not each.is_silent(clock.now())}
    is_checked = await directory.is_signed(from_) or not await _is_unchecked(database)
    problem = named.problem if named is not None else None
    reasons = {
        *_problems(effective, named),
        *([] if problem is not None else _destination_reasons(used, route)),
        *_sender_reasons(used, from_, refusal, is_checked=is_checked),
        *([ReadinessReason.SENDING_ON_HOLD] if hold is not None else ()),
        *([] if workers else [ReadinessReason.NO_WORKER]),
    }
    return SendingReadiness(
        destination=Destination.RECIPIENTS if problem is not None else destination_of(route),
        reasons=tuple(each for each in ReadinessReason if each in reasons),
        provider=provider_label(route),
        sender=from_,
        public_url=used.public_url,
        workers=len(workers),
        tracking=strictest(used.tracking, parse_mode(own.tracking)),
        consenting=consenting,
        problem=problem or refusal,
    )


def _problems(effective: EffectiveSettings, named: NamedProvider | None) -> Iterator[ReadinessReason]:
    if effective.problems:
        yield ReadinessReason.SETTINGS_UNUSABLE
    if named is not None and named.problem is not None:
        yield ReadinessReason.PROVIDER_UNUSABLE


def _destination_reasons(used: Settings, route: Settings) -> Iterator[ReadinessReason]:
    match destination_of(route):
        case Destination.LOCAL_MAILBOX:
            yield (
                ReadinessReason.DEMO
                if used.demo
                else ReadinessReason.DRY_RUN
                if used.dry_run
                else ReadinessReason.LOCAL_MAILBOX
            )
        case Destination.TEST_SERVER:
            yield ReadinessReason.TEST_SERVER
        case _ if any(provider_destination(name, route).reaches_nobody for name in providers_of(route)):
            yield ReadinessReason.PARTLY_LOCAL


def _sender_reasons(used: Settings, sender: str, refusal: str | None, *, is_checked: bool) -> Iterator[ReadinessReason]:
    if refusal is not None:
        yield ReadinessReason.SENDER_REFUSED
    if not is_public_domain(sender):
        yield ReadinessReason.SENDER_MISSING
    elif not is_checked:
        yield ReadinessReason.SENDER_DOMAIN_UNCHECKED
    if not is_public_https(used.public_url):
        yield ReadinessReason.PUBLIC_ADDRESS_LOCAL
    if used.sender_postal_address is None:
        yield ReadinessReason.POSTAL_ADDRESS_MISSING


async def _is_unchecked(database: Database) -> bool:
    """Return whether the set-up was begun, but its check of the DNS records has not succeeded."""
    steps = (await load_progress(database)).steps
    return bool(steps) and steps.get(SetupStep.DOMAIN) is not StepState.DONE
