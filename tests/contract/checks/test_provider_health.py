"""Health and `mailwright check` report the providers of tenants, on both engines."""

import pytest
from sqlalchemy import insert, update

from mailwright.app.stored_settings import load_effective
from mailwright.checks.health import check_health
from mailwright.checks.providers import PROVIDER_GRACE, check_connections
from mailwright.domain.clock import MINUTE
from mailwright.domain.findings import Finding, Verdict
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.tables import provider_configurations, quotas
from tests.builders import DEFAULT_TENANT, Bench
from tests.standins.smtp_sink import SmtpSink

NAME = "acme-smtp"


async def a_provider(bench: Bench, url: str = "smtp://127.0.0.1:1") -> None:
    service = bench.engine.providers
    await service.create(NAME, "smtp", {"smtp_url": url}, actor="ada")
    await service.set_route(DEFAULT_TENANT, None, NAME, actor="ada")


async def finding(bench: Bench) -> Finding | None:
    found = await check_health(bench.engine.settings, bench.database, bench.clock)
    return next((each for each in found if each.name == f"provider {NAME}"), None)


async def report(bench: Bench, *presences: WorkerPresence) -> None:
    await WorkerRegistry(bench.database, bench.clock, "w1").report(WorkerPresence("ses"), *presences)


@pytest.mark.promise("health-true")
async def test_health_reports_workers_and_outages_of_providers(bench: Bench) -> None:
    await a_provider(bench)
    await report(bench)
    assert await finding(bench) is None, "workers need a moment for a new provider"
    bench.clock.advance(PROVIDER_GRACE)
    await report(bench)
    assert (found := await finding(bench)) is not None
    assert found.verdict is Verdict.PROBLEM
    assert "no running worker uses it" in found.summary
    until = bench.clock.now() + MINUTE
    await report(bench, WorkerPresence(NAME, until, "SMTP_AUTH_FAILED: 535 wrong password"))
    assert (found := await finding(bench)) is not None
    assert "SMTP_AUTH_FAILED: 535 wrong password" in found.summary
    assert f"mailwright provider test {NAME}" in (found.advice or "")
    await report(bench, WorkerPresence(NAME))
    assert (found := await finding(bench)) is not None
    assert found.verdict is Verdict.OK


async def test_health_reports_quota_and_unusable_settings(bench: Bench) -> None:
    await a_provider(bench)
    await report(bench, WorkerPresence(NAME))
    empty = {"provider": NAME, "remaining": 0, "detail": "0 of 200 left", "synced_at": bench.clock.now()}
    async with bench.database.write() as tx:
        await tx.execute(insert(quotas).values(**empty, in_flight=0, counted_before=0, failed_syncs=0))
    assert (found := await finding(bench)) is not None
    assert (found.verdict, found.summary) == (Verdict.WARNING, "its quota is used up: 0 of 200 left")
    async with bench.database.write() as tx:
        await tx.execute(update(quotas).values(failed_syncs=3, failure="AccessDenied"))
    assert (found := await finding(bench)) is not None
    assert "AccessDenied" in found.summary
    async with bench.database.write() as tx:
        await tx.execute(update(provider_configurations).values(settings="fernet:broken"))
    assert (found := await finding(bench)) is not None
    assert found.verdict is Verdict.PROBLEM
    assert "cannot be used" in found.summary


async def test_check_connects_to_named_providers(bench: Bench) -> None:
    async with SmtpSink() as sink:
        await a_provider(bench, sink.url)
        await bench.engine.providers.create("spare", "smtp", {"smtp_url": "smtp://127.0.0.1:1"}, actor="ada")
        named = (await load_effective(bench.engine.settings, bench.database)).named
        found = {each.name: each async for each in check_connections(named, bench.clock)}
        assert found[f"provider {NAME}"].verdict is Verdict.OK
        assert found["provider spare"].verdict is Verdict.WARNING
        await bench.engine.providers.set_route(DEFAULT_TENANT, None, "spare", actor="ada")
        named = (await load_effective(bench.engine.settings, bench.database)).named
        found = {each.name: each async for each in check_connections(named, bench.clock)}
        assert found["provider spare"].verdict is Verdict.PROBLEM
