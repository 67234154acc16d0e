"""Check the state of a running installation: its problems, how severe each is, since when, and what to do.

Reads only the database and this machine, so it is quick and can run every minute. The servers check the certificates of
public addresses in the background and store the results in the database.
"""

import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from mailwright.app.destinations import is_local_only
from mailwright.app.https_certificates import list_https_hosts
from mailwright.app.named_providers import NamedProviders
from mailwright.app.stored_settings import EffectiveSettings, load_effective
from mailwright.checks.https import find_https_problems
from mailwright.checks.providers import find_provider_problems
from mailwright.checks.valkey import find_valkey_error
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant, utc_day_text, utc_text
from mailwright.domain.findings import Finding, Verdict, ok, problem, warning
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sizes import size_text
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import DRY_RUN_NOTICE, Settings
from mailwright.outbox.failover import find_failover
from mailwright.outbox.provider_activity import ProviderActivity, load_activity
from mailwright.outbox.quarantine import count_quarantined
from mailwright.outbox.queue_gauges import queue_state
from mailwright.outbox.quotas import ProviderQuota, load_quotas
from mailwright.outbox.recorded_facts import (
    RecordedCertificate,
    find_backup,
    growth_per_day,
    load_certificates,
    load_sizes,
)
from mailwright.outbox.retention_rules import list_rules
from mailwright.outbox.sender_domains import list_domains
from mailwright.outbox.sending_hold import SendingHold, find_hold
from mailwright.outbox.tallies import load_buckets
from mailwright.outbox.workers import WorkerPresence, list_present
from mailwright.providers.route import providers_of
from mailwright.sources.campaigns.repeat_records import list_failed
from mailwright.sources.campaigns.restored import list_running_campaigns
from mailwright.storage.database import Database
from mailwright.storage.replica_state import ReplicaProblem, ReplicaState
from mailwright.storage.server_settings import REPLICATION, find_standbys, find_unsafe_settings
from mailwright.storage.server_state import database_bytes, find_history

LOW_DISK: Final = {Verdict.PROBLEM: 512 * 1024**2, Verdict.WARNING: 2 * 1024**3}
# With more free space than this, a small free share of a large disk is not reported.
LOW_DISK_FREE_ENOUGH: Final = 20 * 1024**3
LOW_DISK_SHARE: Final = {Verdict.PROBLEM: 0.03, Verdict.WARNING: 0.10}
FULL_WITHIN: Final = {Verdict.PROBLEM: 3 * DAY, Verdict.WARNING: 30 * DAY}
# Leases last 30 seconds, so a clock that is this far off makes a worker's messages look abandoned.
CLOCK_SKEW: Final = {Verdict.PROBLEM: 10 * SECOND, Verdict.WARNING: 2 * SECOND}
EXPIRES_WITHIN: Final = {Verdict.PROBLEM: 3 * DAY, Verdict.WARNING: 21 * DAY}
OLDEST_DUE: Final = {Verdict.PROBLEM: HOUR, Verdict.WARNING: 10 * MINUTE}
BACKUP_AGE: Final = {Verdict.PROBLEM: 7 * DAY, Verdict.WARNING: 2 * DAY}
REJECTED_SHARE: Final = {Verdict.PROBLEM: 0.10, Verdict.WARNING: 0.05}
# Rates of fewer messages are not meaningful.
MIN_MESSAGES: Final = 50
# More findings of one kind are counted.
MAX_LISTED: Final = 5
RETENTION_LATE: Final = 2 * DAY
# Workers use changed settings within two seconds and report every five seconds.
SETTINGS_GRACE: Final = 15 * SECOND
LOCAL_ONLY: Final = lazy_gettext("no email leaves this machine: messages go to the local mailbox")


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """The values that the checks read. The metrics use them too."""

    disk_free: int
    disk_total: int
    database_bytes: int
    growth_per_day: int | None
    clock_skew: Instant | None  # the largest difference between a worker's and the server's clock
    certificate_ends: Instant | None
    https: Mapping[str, RecordedCertificate]  # by the public host that visitors see
    oldest_due: Instant | None
    reporting: Mapping[str, ProviderActivity]  # of the providers that are set up to report events
    last_backup: Instant | None
    workers: Sequence[WorkerPresence]
    running_workers: int
    hold: SendingHold | None
    is_queued: bool  # whether messages or campaigns wait for a worker
    quarantined: int  # messages that wait for a decision after a restore
    settings_problems: tuple[str, ...]  # stored settings that cannot be used
    outdated_workers: tuple[str, ...]  # workers that still use earlier stored settings
    named: NamedProviders
    replica: ReplicaState | None  # None if none is configured
    valkey_error: str | None  # why Valkey does not respond, if it is configured


async def check_health(settings: Settings, database: Database, clock: Clock) -> list[Finding]:
    """Run all checks of a running installation, the worst findings first."""
    now = clock.now()
    return await find_problems(settings, database, await load_facts(settings, database, now), now)


async def find_problems(settings: Settings, database: Database, facts: HealthFacts, now: Instant) -> list[Finding]:
    findings = [
        *_settings(facts),
        *_delivery(settings, facts.named),
        *_hold(facts),
        *[each async for each in _failover(database, now)],
        *[each async for each in _replication(database)],
        *_replica(facts),
        *_pooler(settings, database),
        *_workers(facts, now),
        *_valkey(facts),
        *find_provider_problems(facts.named, facts.workers, await _quotas(database), now),
        *_disk(facts, now),
        *_clocks(facts.workers),
        *_certificate(settings, facts, now),
        *find_https_problems(facts.https, now),
        *_queue(facts, now),
        *_events(facts, now),
        *[each async for each in _rejections(database, now)],
        *_backup(facts, now),
        *[each async for each in _retention(database, now)],
        *[each async for each in _sender_domains(database)],
        *[each async for each in _recurring_campaigns(database)],
    ]
    order = list(Verdict)
    return sorted(findings, key=lambda finding: -order.index(finding.verdict))


async def _quotas(database: Database) -> dict[str, ProviderQuota]:
    return {each.provider: each for each in await load_quotas(database)}


async def load_facts(settings: Settings, database: Database, now: Instant) -> HealthFacts:
    usage = shutil.disk_usage(_data_folder(settings, database))
    queue = await queue_state(database, now)
    backup = await find_backup(database)
    workers = await list_present(database, now)
    skews = [abs(each.clock_skew) for each in workers if each.clock_skew is not None]
    effective = await load_effective(settings, database)
    return HealthFacts(
        disk_free=usage.free,
        disk_total=usage.total,
        database_bytes=await database_bytes(database),
        growth_per_day=growth_per_day(await load_sizes(database)),
        clock_skew=max(skews, default=None),
        certificate_ends=certificate_end(settings.smtp_certificate_file),
        https=await _https(settings, database),
        oldest_due=queue.oldest_due,
        reporting=await load_activity(database, _reporting_providers(settings, effective.named), now),
        last_backup=None if backup is None else backup.at,
        workers=workers,
        running_workers=len({each.worker for each in workers if not each.is_silent(now)}),
        hold=await find_hold(database),
        is_queued=bool(queue.due or queue.later or queue.sending or await list_running_campaigns(database)),
        quarantined=await count_quarantined(database),
        settings_problems=effective.problems,
        outdated_workers=_outdated(effective, workers, now),
        named=effective.named,
        replica=None if database.replica is None else await database.replica.measure(),
        valkey_error=None if settings.redis_url is None else await find_valkey_error(settings.redis_url),
    )


async def _https(settings: Settings, database: Database) -> dict[str, RecordedCertificate]:
    known = await load_certificates(database)
    return {host: known[host] for host in await list_https_hosts(settings, database) if host in known}


def _reporting_providers(settings: Settings, named: NamedProviders) -> Iterator[str]:
    """List the providers of the installation and of tenants whose events should arrive here."""
    for name in providers_of(settings):
        if KINDS[name].delivers_events(settings):
            yield name
    for each in named.by_name.values():
        if each.problem is None and KINDS[each.kind].delivers_events(each.settings):
            yield each.name


def _outdated(effective: EffectiveSettings, workers: Sequence[WorkerPresence], now: Instant) -> tuple[str, ...]:
    changed_at = max((each.updated_at for each in effective.stored.values()), default=0)
    changed_at = max(changed_at, effective.named.changed_at)
    if now - changed_at < SETTINGS_GRACE:
        return ()
    running = [each for each in workers if not each.is_silent(now)]
    return tuple(sorted({each.worker for each in running if each.settings_version not in (None, effective.version)}))


def certificate_end(file: Path | None) -> Instant | None:
    """Return when the certificate expires, or None if there is none or it cannot be read."""
    if file is None:
        return None
    from cryptography import x509  # noqa: PLC0415 - slow to import, and needed only with a certificate

    try:
        return round(x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp() * 1000)
    except (OSError, ValueError):
        return None


def _data_folder(settings: Settings, database: Database) -> Path:
    """Return the folder of the SQLite file, or the state folder if the database is on a server."""
    folder = settings.state if database.dialect != "sqlite" else Path(str(database.url.database)).parent
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


def _worst(value: float, limits: Mapping[Verdict, float], *, is_high_bad: bool = True) -> Verdict:
    """Return the worst verdict whose limit the value reaches."""
    for verdict, limit in limits.items():
        if value >= limit if is_high_bad else value <= limit:
            return verdict
    return Verdict.OK


def _valkey(facts: HealthFacts) -> Iterator[Finding]:
    if facts.valkey_error is None:
        return
    summary = lazy_gettext(
        "Valkey does not respond, so limits are counted in the database and idle workers poll: {error}",
        error=facts.valkey_error,
    )
    advice = lazy_gettext("start it, or unset MAILWRIGHT_REDIS_URL to use the database instead")
    yield warning("redis", summary, advice)


def _settings(facts: HealthFacts) -> Iterator[Finding]:
    for each in facts.settings_problems:
        advice = lazy_gettext(
            "restore the key file, or enter the value again in the dashboard or with `mailwright setting set`"
        )
        yield problem(
            "settings",
            lazy_gettext("nothing is sent, because a stored setting is unusable: {each}", each=each),
            advice,
        )
    for worker in facts.outdated_workers:
        advice = lazy_gettext("wait until it has finished its sends; if this stays, restart it")
        yield warning("settings", lazy_gettext("{worker} still uses earlier settings", worker=worker), advice)


def _delivery(settings: Settings, named: NamedProviders) -> Iterator[Finding]:
    """Report that nobody receives email, because a new installation would otherwise look ready."""
    is_local = is_local_only(settings)
    if settings.demo:
        yield ok("delivery", lazy_gettext("this is a demo: {local_only}", local_only=LOCAL_ONLY))
    elif settings.dry_run:
        yield warning(
            "delivery",
            DRY_RUN_NOTICE,
            lazy_gettext("unset MAILWRIGHT_DRY_RUN and DRY_RUN_SEND to send"),
        )
    elif is_local and not all(is_local_only(each.settings) for each in named.used):
        summary = lazy_gettext(
            "email without a route to a provider goes to the local mailbox, and only the rest leaves this machine"
        )
        advice = lazy_gettext(
            "choose a provider for all other email in the dashboard under Settings, if it has to leave too"
        )
        yield warning("delivery", summary, advice)
    elif is_local:
        advice = lazy_gettext("choose a provider in the dashboard under Settings, or run `mailwright setup`")
        yield warning("delivery", LOCAL_ONLY, advice)


def _hold(facts: HealthFacts) -> Iterator[Finding]:
    if facts.hold is not None:
        summary = lazy_gettext(
            "all sending has been on hold since {since} ({reason}): {detail}",
            since=utc_text(facts.hold.since),
            reason=facts.hold.reason,
            detail=facts.hold.detail,
        )
        advice = lazy_gettext(
            "review the messages with `mailwright quarantine list`, then run `mailwright quarantine release` or `drop`"
        )
        yield problem("sending", summary, advice, since=facts.hold.since)
    elif facts.quarantined:
        advice = lazy_gettext(
            "send them with `mailwright quarantine release`, or close them with `mailwright quarantine drop`"
        )
        summary = (
            lazy_gettext("1 message may have been sent before a restore, without a decision so far")
            if facts.quarantined == 1
            else lazy_gettext(
                "{count} messages may have been sent before a restore, without a decision so far",
                count=f"{facts.quarantined:,}",
            )
        )
        yield warning("quarantine", summary, advice)


async def _failover(database: Database, now: Instant) -> AsyncIterator[Finding]:
    """Report for some days what a failover of the database has lost."""
    failover = await find_failover(database, now)
    if failover is None or failover.ended_at is None:
        return  # While machines compare, sending is on hold.
    details = [
        lazy_gettext("messages marked as sent: {count}", count=f"{failover.restored:,}") if failover.restored else None,
        lazy_gettext("put in doubt: {count}", count=f"{failover.doubted:,}") if failover.doubted else None,
        lazy_gettext("sent messages missing: {count}", count=f"{failover.lost:,}") if failover.lost else None,
        lazy_gettext("accepted messages missing: {count}", count=f"{failover.accepted_lost:,}")
        if failover.accepted_lost
        else None,
        lazy_gettext("sent twice: {count}", count=f"{failover.repeated:,}") if failover.repeated else None,
    ]
    summary = lazy_gettext(
        "another database server took over at {since} without the latest commits: {details}",
        since=utc_text(failover.since),
        details=", ".join(str(each) for each in details if each is not None),
    )
    if failover.examples:
        summary = lazy_gettext("{summary} (IDs: {ids})", summary=summary, ids=", ".join(failover.examples))
    advice = lazy_gettext(
        "decide about messages in doubt with `mailwright quarantine list`, repeat missing ones, and make the "
        "replication synchronous"
    )
    yield warning("failover", summary, advice, since=failover.since)


async def _replication(database: Database) -> AsyncIterator[Finding]:
    if database.dialect == "postgresql" and await find_history(database) is None:
        yield warning(
            "replication",
            lazy_gettext("this role cannot recognise a failover of the database server"),
            lazy_gettext("let it call pg_control_system() and pg_walfile_name(); see docs/postgresql.md"),
        )
    standbys = await find_standbys(database)
    if standbys.is_missing:
        summary = lazy_gettext(
            "nothing is accepted or sent, because commits wait for a synchronous standby (synchronous_standby_names = "
            "'{names}', required: {required}, connected: {connected})",
            names=standbys.names,
            required=standbys.required,
            connected=standbys.synchronous,
        )
        advice = lazy_gettext(
            "start the standby; if it is lost, set synchronous_standby_names = '' and reload the server: commits then "
            "wait for no standby, and a failover loses the latest ones"
        )
        yield problem("replication", summary, advice)
    for each in await find_unsafe_settings(database):
        if each.name in REPLICATION:
            yield warning("replication", each.problem, each.advice)


_REPLICA_PROBLEMS: Final = {
    ReplicaProblem.UNREACHABLE: lazy_gettext("it does not respond"),
    ReplicaProblem.NOT_A_REPLICA: lazy_gettext("it is a primary, not a replica"),
    ReplicaProblem.OTHER_DATABASE: lazy_gettext("it has another database"),
    ReplicaProblem.OTHER_HISTORY: lazy_gettext("it does not follow the present primary"),
    ReplicaProblem.BEHIND: lazy_gettext("it is behind"),
    ReplicaProblem.BUSY: lazy_gettext("other reports use all connections to it"),
    ReplicaProblem.PRIMARY_UNKNOWN: lazy_gettext("the position of the primary cannot be read"),
}


def _replica(facts: HealthFacts) -> Iterator[Finding]:
    if facts.replica is None:
        return
    lag = facts.replica.lag_seconds
    if facts.replica.problem is None:
        yield ok(
            "replica",
            lazy_gettext("reports, exports and lists read it; it is {lag} s behind", lag=f"{lag or 0:.2f}"),
        )
        return
    reason = _REPLICA_PROBLEMS[facts.replica.problem]
    summary = lazy_gettext("reports, exports and lists read the primary instead: {reason}", reason=reason)
    if facts.replica.problem is ReplicaProblem.BEHIND and lag is not None:
        summary = lazy_gettext("{summary} (by {lag} s)", summary=summary, lag=f"{lag:.1f}")
    elif facts.replica.detail:
        summary = lazy_gettext("{summary} ({detail})", summary=summary, detail=facts.replica.detail)
    advice = (
        lazy_gettext("nothing, unless this lasts: then look for slow statements in its pg_stat_activity")
        if facts.replica.problem is ReplicaProblem.BUSY
        else lazy_gettext("repair the replica, or correct MAILWRIGHT_DATABASE_READ_URL")
    )
    yield warning("replica", summary, advice)


def _pooler(settings: Settings, database: Database) -> Iterator[Finding]:
    """Report a connection pooler, and what does not work through it."""
    if not database.has_pooler:
        return
    off: list[object] = []
    if settings.database_direct_url is None:
        if settings.redis_url is None:
            off.append(lazy_gettext("workers look for new messages every half second instead of being woken"))
        off.append(lazy_gettext("restores are refused"))
    if not database.keeps_statements:
        off.append(lazy_gettext("statements are prepared for each use"))
    summary = lazy_gettext("the connection goes through a connection pooler")
    if off:
        summary = lazy_gettext("{summary}: {effects}", summary=summary, effects=", ".join(map(str, off)))
    advice = lazy_gettext("set MAILWRIGHT_DATABASE_DIRECT_URL to the address of the server itself")
    yield Finding("pooler", Verdict.OK, summary, advice if settings.database_direct_url is None else None)


def _workers(facts: HealthFacts, now: Instant) -> Iterator[Finding]:
    workers = facts.workers
    silent = [each for each in workers if each.is_silent(now)]
    running = {each.worker for each in workers} - {each.worker for each in silent}
    if not running:
        since = max((each.seen_at for each in silent), default=None)
        advice = lazy_gettext("start `mailwright serve` or `mailwright worker`")
        # Before the first start, nothing waits for a worker.
        verdict = Verdict.WARNING if since is None and not facts.is_queued else Verdict.PROBLEM
        yield Finding("workers", verdict, lazy_gettext("none is running, so nothing is sent"), advice, since=since)
        return
    providers = sorted({each.provider for each in workers if each.worker in running})
    shown = ", ".join(providers)
    yield ok(
        "workers",
        lazy_gettext("{count} running, with the provider {providers}", count=len(running), providers=shown)
        if len(providers) == 1
        else lazy_gettext("{count} running, with the providers {providers}", count=len(running), providers=shown),
    )
    for worker in sorted({each.worker for each in silent}):
        since = max(each.seen_at for each in silent if each.worker == worker)
        advice = lazy_gettext("if it was stopped, ignore this: other workers take over its messages within 30 s")
        yield warning(
            "workers",
            lazy_gettext("{worker} does not report any more", worker=worker),
            advice,
            since=since,
        )


def _disk(facts: HealthFacts, now: Instant) -> Iterator[Finding]:
    share = facts.disk_free / max(facts.disk_total, 1)
    verdicts = (_worst(facts.disk_free, LOW_DISK, is_high_bad=False), _worst(share, LOW_DISK_SHARE, is_high_bad=False))
    verdict = max(verdicts, key=list(Verdict).index) if facts.disk_free < LOW_DISK_FREE_ENOUGH else Verdict.OK
    free = lazy_gettext(
        "{disk_free} of {disk_total} free ({share})",
        disk_free=size_text(facts.disk_free),
        disk_total=size_text(facts.disk_total),
        share=f"{share:.0%}",
    )
    advice = lazy_gettext("free disk space, or switch on retention with `mailwright retention set`")
    yield Finding("disk", verdict, free, None if verdict is Verdict.OK else advice)
    growth = facts.growth_per_day
    if growth is None:
        yield ok(
            "database size",
            lazy_gettext(
                "{database_bytes}; its growth is known after a day", database_bytes=size_text(facts.database_bytes)
            ),
        )
        return
    summary = lazy_gettext(
        "{size}, {growth} per day",
        size=size_text(facts.database_bytes),
        growth=f"{'+' if growth >= 0 else '−'}{size_text(abs(growth))}",
    )
    if growth <= 0:
        yield ok("database size", summary)
        return
    full_in = facts.disk_free * DAY // growth
    verdict = _worst(full_in, FULL_WITHIN, is_high_bad=False)
    if full_in < 10 * 365 * DAY:
        summary = lazy_gettext(
            "{growth}; at this rate the disk is full on {day}", growth=summary, day=utc_day_text(now + full_in)
        )
    yield Finding("database size", verdict, summary, None if verdict is Verdict.OK else advice)


def _clocks(workers: Sequence[WorkerPresence]) -> Iterator[Finding]:
    for each in workers:
        verdict = Verdict.OK if each.clock_skew is None else _worst(abs(each.clock_skew), CLOCK_SKEW)
        if each.clock_skew is not None and verdict is not Verdict.OK:
            seconds = f"{abs(each.clock_skew) / SECOND:.1f}"
            summary = (
                lazy_gettext(
                    "the clock of {worker} is {seconds} s behind the database's", worker=each.worker, seconds=seconds
                )
                if each.clock_skew > 0
                else lazy_gettext(
                    "the clock of {worker} is {seconds} s ahead of the database's", worker=each.worker, seconds=seconds
                )
            )
            yield Finding(
                "clock",
                verdict,
                summary,
                lazy_gettext("synchronise the clocks of all machines, for example with chrony"),
            )


def _certificate(settings: Settings, facts: HealthFacts, now: Instant) -> Iterator[Finding]:
    file = settings.smtp_certificate_file
    if file is None:
        return
    if facts.certificate_ends is None:
        advice = lazy_gettext("correct MAILWRIGHT_SMTP_CERTIFICATE_FILE")
        yield problem("certificate", lazy_gettext("{file} cannot be read as a certificate", file=file), advice)
        return
    verdict = _worst(facts.certificate_ends - now, EXPIRES_WITHIN, is_high_bad=False)
    day = utc_day_text(facts.certificate_ends)
    summary = (
        lazy_gettext("{name} expired on {day}", name=file.name, day=day)
        if facts.certificate_ends <= now
        else lazy_gettext("{name} expires on {day}", name=file.name, day=day)
    )
    renew = None if verdict is Verdict.OK else lazy_gettext("renew it, then restart the SMTP server")
    yield Finding("certificate", verdict, summary, renew)


def _queue(facts: HealthFacts, now: Instant) -> Iterator[Finding]:
    if facts.oldest_due is None or facts.hold is not None:
        return
    age = now - facts.oldest_due
    verdict = _worst(age, OLDEST_DUE)
    summary = lazy_gettext("the oldest due message waits for {age} min", age=age // MINUTE)
    advice = lazy_gettext("run `mailwright forecast` and `mailwright message explain ID`; add workers if they are busy")
    if verdict is not Verdict.OK:
        yield Finding("queue", verdict, summary, advice, since=facts.oldest_due)


def _events(facts: HealthFacts, now: Instant) -> Iterator[Finding]:
    """Report each provider whose events do not arrive although it has accepted messages."""
    for name, activity in facts.reporting.items():
        if activity.is_silent(now, min_sent=MIN_MESSAGES):
            summary = lazy_gettext(
                "no event of {names} arrived in 24 h, although {sent} messages were sent",
                names=name,
                sent=f"{activity.sent:,}",
            )
            advice = lazy_gettext(
                "check the webhook or queue at the provider; bounces and complaints are missed until then"
            )
            yield problem("events", summary, advice, since=activity.last_event)
        elif activity.last_event is not None:
            last = utc_text(activity.last_event)
            yield ok("events", lazy_gettext("the last one of {provider} arrived at {last}", provider=name, last=last))


async def _rejections(database: Database, now: Instant) -> AsyncIterator[Finding]:
    buckets = await load_buckets(database, tenant_id=None, since=now - DAY, until=now, length=HOUR)
    sent, failed, bounced = (sum(each.counts.get(name, 0) for each in buckets) for name in ("SENT", "FAILED", "bounce"))
    if sent + failed < MIN_MESSAGES:
        return
    share = (failed + bounced) / (sent + failed)
    verdict = _worst(share, REJECTED_SHARE)
    summary = lazy_gettext(
        "{failed} of {sent} messages failed or bounced in 24 h ({share})",
        failed=f"{failed + bounced:,}",
        sent=f"{sent + failed:,}",
        share=f"{share:.1%}",
    )
    advice = lazy_gettext(
        "look at the error codes with `mailwright message list --status FAILED`; pause campaigns to bad lists"
    )
    yield Finding("rejections", verdict, summary, None if verdict is Verdict.OK else advice)


def _backup(facts: HealthFacts, now: Instant) -> Iterator[Finding]:
    advice = lazy_gettext("run `mailwright backup FOLDER --keep 7` once a day")
    if facts.last_backup is None:
        yield warning("backup", lazy_gettext("no backup was made with `mailwright backup` yet"), advice)
        return
    verdict = _worst(now - facts.last_backup, BACKUP_AGE)
    summary = lazy_gettext("the last one was made at {last_backup}", last_backup=utc_text(facts.last_backup))
    yield Finding("backup", verdict, summary, None if verdict is Verdict.OK else advice, since=facts.last_backup)


async def _retention(database: Database, now: Instant) -> AsyncIterator[Finding]:
    rules = await list_rules(database)
    if not rules:
        yield ok("retention", lazy_gettext("off: nothing is deleted"))
        return
    # A new rule is late if its first pass takes this long.
    late = [each for each in rules if now - (each.finished_at or each.updated_at) > RETENTION_LATE]
    if late:
        kinds = ", ".join(sorted({each.kind.value for each in late}))
        since = min(each.finished_at or each.updated_at for each in late)
        advice = lazy_gettext("run `mailwright retention run` and look for `retention` in the logs")
        yield warning(
            "retention",
            lazy_gettext("no complete pass over {kinds} in 2 days", kinds=kinds),
            advice,
            since=since,
        )
    else:
        yield ok(
            "retention",
            lazy_gettext("1 rule is on") if len(rules) == 1 else lazy_gettext("{count} rules are on", count=len(rules)),
        )


async def _sender_domains(database: Database) -> AsyncIterator[Finding]:
    """Report domains that are signed with keys that receivers cannot find. Nothing if there are no domains."""
    async with database.read() as tx:
        verified = [each for each in await list_domains(tx, None) if each.is_verified]
    lost = [each.domain for each in verified if each.lacks_signing_records]
    if lost:
        shown = ", ".join([*lost[:5], "…"] if len(lost) > 5 else lost)
        advice = lazy_gettext(
            "publish the DKIM records again; `mailwright domain check {lost}` names them", lost=lost[0]
        )
        yield problem(
            "domains",
            lazy_gettext("the DKIM records of {shown} are gone or changed", shown=shown),
            advice,
        )
    elif verified:
        yield ok("domains", lazy_gettext("{count} verified, and their DKIM records are published", count=len(verified)))


async def _recurring_campaigns(database: Database) -> AsyncIterator[Finding]:
    """Report recurring campaigns whose emails are not sent although they should be."""
    async with database.read() as tx:
        failed = await list_failed(tx)
    for each in failed[:MAX_LISTED]:
        advice = lazy_gettext(
            "run `mailwright campaign repeat {campaign_id}`; its page in the dashboard says what to do",
            campaign_id=each.campaign_id,
        )
        summary = (
            lazy_gettext("{name} is paused: {result}", name=each.name, result=each.result)
            if each.is_paused
            else lazy_gettext("{name} was not sent at its last time: {result}", name=each.name, result=each.result)
        )
        yield problem("recurring campaigns", summary, advice, since=each.failed_at)
    if len(failed) > MAX_LISTED:
        summary = lazy_gettext("{count} more are paused or were not sent", count=f"{len(failed) - MAX_LISTED:,}")
        yield problem("recurring campaigns", summary, lazy_gettext("look for `pause_repeat` in the audit log"))
