"""Check the installation: settings, database, workers, Valkey, providers, DNS and mailouts. Sends nothing."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack

from mailwright.app.databases import open_database
from mailwright.app.https_certificates import check_certificates
from mailwright.app.inbound import open_bounce_mailbox
from mailwright.app.named_providers import NO_PROVIDERS, NamedProviders
from mailwright.app.providers import make_route
from mailwright.app.sender_dns import check_sender
from mailwright.app.sender_rules import is_public_https
from mailwright.app.stored_settings import load_effective
from mailwright.app.verify import verify
from mailwright.checks.health import check_health
from mailwright.checks.images import check_images
from mailwright.checks.mailouts import check_mailout_list, check_mailouts
from mailwright.checks.oidc import check_oidc
from mailwright.checks.profiles import check_profiles
from mailwright.checks.providers import check_connections
from mailwright.checks.valkey import find_valkey_error
from mailwright.domain.clock import DAY, Clock, SystemClock, utc_text
from mailwright.domain.dns_records import DnsState
from mailwright.domain.errors import (
    ConfigurationInvalid,
    DatabaseBlocked,
    DatabaseDamaged,
    DatabaseNotReady,
    MailwrightError,
)
from mailwright.domain.findings import Finding, Verdict, ok, problem, warning
from mailwright.events.unknown_sends import find_unknown_sends
from mailwright.ops.provider_kinds import KINDS, PLUGIN_PROBLEMS
from mailwright.ops.settings import Settings
from mailwright.ops.source_kinds import SOURCE_KINDS, SOURCE_PROBLEMS
from mailwright.ops.stored import variable_of
from mailwright.ops.unknown_settings import find_unknown_settings
from mailwright.outbox.sender_domains import list_domains
from mailwright.outbox.workers import list_present
from mailwright.outbox.write_probe import probe_write
from mailwright.providers.protocol import ProviderCheck
from mailwright.storage.database import Database, is_missing
from mailwright.storage.postgresql_url import shown
from mailwright.storage.revision import newest_revision
from mailwright.storage.schema_state import SchemaOutdated, UnknownSchema, load_schema, require_usable
from mailwright.storage.server_settings import REPLICATION, find_unsafe_settings
from mailwright.storage.standbys import StandbyMissing

# How long the check warns about the latest report of an unknown message.
UNKNOWN_SENDS_SHOWN = 7 * DAY
IMAP_SECONDS = 30.0


async def check(settings: Settings) -> AsyncIterator[Finding]:
    """Run all checks and yield their results one by one."""
    clock = SystemClock()
    settings, unusable, named = await _with_stored(settings)
    for each in unusable:
        yield problem("settings", each, "restore the key file, or enter the value again; until then, nothing is sent")
    for finding in (*_settings(settings), *_links(settings), *_plugins(settings)):
        yield finding
    for unknown in find_unknown_settings(os.environ):
        yield warning("settings", f"{unknown.name} {unknown.problem}", "correct the name, or unset the variable")
    async for finding in _storage(settings, clock):
        yield finding
    if settings.redis_url is not None:
        yield await _valkey(settings.redis_url)
    async for finding in _providers(settings, clock):
        yield finding
    async for finding in check_connections(named, clock):
        yield finding
    async for finding in _bounce_mailbox(settings, clock):
        yield finding
    async for finding in check_images(settings, clock):
        yield finding
    async for finding in check_oidc(settings, clock):
        yield finding
    async for finding in check_sender(settings):
        yield finding
    async for finding in check_mailouts(settings):
        yield finding


async def _with_stored(settings: Settings) -> tuple[Settings, tuple[str, ...], NamedProviders]:
    """Add the settings and providers of the database, and their problems. Another check reports the database."""
    try:
        database = open_database(settings)
    except MailwrightError:
        return settings, (), NO_PROVIDERS
    try:
        if is_missing(database) or not (await load_schema(database)).is_usable:
            return settings, (), NO_PROVIDERS
        effective = await load_effective(settings, database)
        return effective.settings, effective.problems, effective.named
    except MailwrightError:
        return settings, (), NO_PROVIDERS
    finally:
        await database.close()


def _settings(settings: Settings) -> Iterator[Finding]:
    """Report every setting that would keep a command from starting."""
    try:
        verify(settings)
    except ConfigurationInvalid as error:
        for each in error.problems:
            yield problem("settings", each, "correct the setting; until then, Mailwright does not start")
    else:
        yield ok("settings", "all valid")


def _links(settings: Settings) -> Iterator[Finding]:
    """Report links that recipients cannot open. `mailwright serve` stores its address when it starts."""
    if is_public_https(settings.public_url):
        return
    summary = f"links in emails lead to {settings.public_url}, which is not a public https:// address"
    if not settings.has_public_address:
        summary += "; emails that are queued before `mailwright serve` starts with another port may keep it"
    yield warning("links", summary, "set MAILWRIGHT_BASE_URL to the public address of the server")


def _plugins(settings: Settings) -> Iterator[Finding]:
    for each in (*PLUGIN_PROBLEMS.values(), *SOURCE_PROBLEMS.values()):
        yield problem("plugin", each, "install a version that fits, or uninstall the package; messages for it wait")
    for name in settings.sources:
        if name not in SOURCE_KINDS and name not in SOURCE_PROBLEMS:
            summary = f"MAILWRIGHT_SOURCES names {name}, but no installed package adds this source"
            yield problem("plugin", summary, "install the package, or remove the name")


async def _storage(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    try:
        database = open_database(settings)
    except MailwrightError as error:
        yield problem("database", str(error), "correct the setting")
        return
    try:
        found = await _database(database, clock)
        yield found
        if found.verdict is Verdict.OK:
            async for unsafe in _server_settings(database):
                yield unsafe
            async for unknown in _unknown_sends(database, clock):
                yield unknown
            async for unavailable in _unavailable_providers(database, clock):
                yield unavailable
            await check_certificates(settings, database, clock, is_forced=True)
            for finding in await check_health(settings, database, clock):
                is_reported = finding.name == "settings" and finding.verdict is Verdict.PROBLEM
                if not is_reported and finding.name != "redis":  # `check` itself reports these, without a database too.
                    yield finding
            async for finding in check_mailout_list(settings, database):
                yield finding
            async for finding in check_profiles(settings, database):
                yield finding
            async for finding in _sender_domains(database):
                yield finding
    finally:
        await database.close()


async def _sender_domains(database: Database) -> AsyncIterator[Finding]:
    """Report the sender domains whose DKIM records were not visible in their last check."""
    async with database.read() as tx:
        domains = await list_domains(tx, None)
    for each in domains:
        unmet = [result for result in each.results if result.record.is_required and result.state is not DnsState.OK]
        if unmet or not each.is_verified:
            advice = f"publish its records, then run `mailwright domain check {each.domain}`"
            yield warning("sender domain", f"{each.domain} ({each.state}): {each.missing}", advice)


async def _database(database: Database, clock: Clock) -> Finding:
    where = shown(database.url)
    if is_missing(database):
        return problem("database", f"{where} does not exist yet", "run `mailwright serve` or `mailwright db upgrade`")
    try:
        await require_usable(database)
        await probe_write(database, clock)
    except MailwrightError as error:
        return Finding("database", Verdict.PROBLEM, f"{where}: {error}", _database_advice(error))
    return ok("database", f"{where}: reachable, schema up to date ({newest_revision()}), writable")


def _database_advice(error: MailwrightError) -> str | None:
    match error:
        case SchemaOutdated():
            return "run `mailwright db upgrade`"
        case UnknownSchema():
            return "install the newer version of Mailwright"
        case DatabaseDamaged():
            return "restore the latest backup"
        case StandbyMissing():
            return "start the standby, or make commits wait for no standby"
        case DatabaseBlocked() | DatabaseNotReady():
            return None  # The message says what to do.
    return "start it, or correct MAILWRIGHT_DATABASE_URL"


async def _server_settings(database: Database) -> AsyncIterator[Finding]:
    for each in await find_unsafe_settings(database):
        if each.name not in REPLICATION:  # `check_health` reports these.
            yield warning("database", each.problem, each.advice)


async def _unknown_sends(database: Database, clock: Clock) -> AsyncIterator[Finding]:
    unknown = await find_unknown_sends(database)
    if unknown is not None and clock.now() - unknown.latest < UNKNOWN_SENDS_SHOWN:
        yield warning(
            "sending",
            f"reports about messages that are not in this database: {unknown.reports:,}, the latest from "
            f"{unknown.source} at {utc_text(unknown.latest)} about {unknown.outbox_id}",
            "if no other installation uses the provider's account, the database may be an older backup",
        )


async def _unavailable_providers(database: Database, clock: Clock) -> AsyncIterator[Finding]:
    for presence in await list_present(database, clock.now()):
        if presence.is_unavailable:
            why = presence.unavailable_reason or "no response"
            yield problem(
                "workers", f"do not use {presence.provider} at present: {why}", "see the result for the provider below"
            )
            return


async def _valkey(url: str) -> Finding:
    if (error := await find_valkey_error(url)) is not None:
        advice = "start it, or unset MAILWRIGHT_REDIS_URL to use the database instead"
        return problem("redis", f"no response: {error}", advice)
    return ok("redis", "reachable")


async def _providers(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    try:
        route = make_route(settings, clock)
    except MailwrightError as error:
        yield problem("provider", str(error), "correct the provider settings")
        return
    try:
        probes = [(member.name, await member.provider.check()) for member in route.members]
    finally:
        await route.close()
    unused = _unused_credentials(settings) if all(KINDS[name].is_local for name, _ in probes) else []
    if unused:
        yield warning(
            "provider",
            f"email goes to the local mailbox only, and these credentials are not used: {', '.join(unused)}",
            "set MAILWRIGHT_PROVIDER to the service that delivers email",
        )
    advice = _advice([probe for _, probe in probes])
    for name, probe in probes:
        summary = f"{name}: {probe.summary}"
        yield ok("provider", summary) if probe.is_ok else problem("provider", summary, advice)


async def _bounce_mailbox(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Sign in to the bounce mailbox over IMAP, also with an access token, without reading anything."""
    if settings.bounce_mailbox is None:
        return
    from mailwright.events.bounces import MailboxUnavailable  # noqa: PLC0415 - needed only with a mailbox
    from mailwright.events.bounces.imap import ImapMailbox  # noqa: PLC0415

    name = "bounce mailbox"
    async with AsyncExitStack() as closing:
        try:
            mailbox = open_bounce_mailbox(settings.bounce_mailbox.get_secret_value(), settings, clock, closing)
            if not isinstance(mailbox, ImapMailbox):
                return
            async with asyncio.timeout(IMAP_SECONDS):
                yield ok(name, await mailbox.check())
        except TimeoutError:
            yield problem(name, f"no response within {IMAP_SECONDS:g} seconds", "check the host, port and firewall")
        except (MailboxUnavailable, ConfigurationInvalid) as error:
            yield problem(name, str(error), "correct MAILWRIGHT_BOUNCE_MAILBOX or the OAuth settings")


def _unused_credentials(settings: Settings) -> list[str]:
    names = [name for kind in KINDS.values() if (name := kind.credential or kind.stdin_setting) is not None]
    return [variable_of(name) for name in names if getattr(settings, name) and not settings.dry_run]


def _advice(probes: Sequence[ProviderCheck]) -> str:
    if any(probe.is_ok for probe in probes):
        return "the other providers of the route send until this is fixed"
    if len(probes) > 1:
        return "no provider of the route works; messages wait until one is fixed"
    return "messages wait until this is fixed"
