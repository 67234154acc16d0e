"""Providers of their own for tenants and sources: the right one sends, and none of them delays another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import select, update

from mailwright.actions.suggestions import commands
from mailwright.app.named_providers import fields_of
from mailwright.app.wiring import make_workers, open_engine
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.explanation import ExplanationState
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.permits import DeferReason
from mailwright.domain.provider_routes import ClaimScope, ProviderRoutes
from mailwright.domain.states import Priority, Status
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.claim import Claims
from mailwright.outbox.explain import explain
from mailwright.outbox.provider_configurations import (
    ProviderChange,
    ProviderConfiguration,
    ProviderExists,
    ProviderInUse,
    edit_configuration,
)
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.tables import deliveries, messages, provider_configurations
from mailwright.texts.explanations import message_text
from tests.builders import DEFAULT_TENANT, LOCK_TTL, a_message, a_tenant, settings_for, statuses
from tests.conftest import DatabaseAddress
from tests.standins.smtp_sink import SmtpSink


class Installation:
    """An installation with a provider of its own and one for the tenant `acme`, both SMTP servers."""

    def __init__(self, engine: DatabaseAddress, clock: ManualClock, own: SmtpSink, acme: SmtpSink) -> None:
        self.settings = settings_for(engine.url, provider="smtp", smtp_url=own.url)
        self.own, self.acme, self.clock = own, acme, clock
        self.tenant_id = 0

    def open(self) -> Any:
        return open_engine(self.settings, self.clock)

    async def accept(self, *messages: NewMessage) -> list[str]:
        async with self.open() as engine:
            return [accepted.outbox_id for accepted in await engine.acceptor.accept(messages)]

    async def drain(self) -> None:
        async with self.open() as engine, asyncio.timeout(60):
            await (await make_workers(engine)).run(drain=True)

    def recipients(self, sink: SmtpSink) -> set[str]:
        return {recipient for message in sink.messages for recipient in message.recipients}


WEBHOOK_SECRETS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("sendgrid", {"SENDGRID_API_KEY": "k"}, "SENDGRID_WEBHOOK_PUBLIC_KEY"),
    ("resend", {"RESEND_API_KEY": "re_1"}, "RESEND_WEBHOOK_SECRET"),
    ("postmark", {"POSTMARK_SERVER_TOKEN": "t"}, "POSTMARK_WEBHOOK_SECRET"),
    ("sparkpost", {"SPARKPOST_API_KEY": "k"}, "SPARKPOST_WEBHOOK_SECRET"),
    ("mailjet", {"MAILJET_API_KEY": "k", "MAILJET_SECRET_KEY": "s"}, "MAILJET_WEBHOOK_SECRET"),
    ("brevo", {"BREVO_SMTP_URL": "smtps://a:b@smtp-relay.brevo.com:465"}, "BREVO_WEBHOOK_SECRET"),
)


@pytest.fixture
async def installed(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Installation]:
    async with AsyncExitStack() as stack:
        own, acme = [await stack.enter_async_context(SmtpSink()) for _ in range(2)]
        made = Installation(engine, clock, own, acme)
        async with made.open() as opened:
            made.tenant_id = await a_tenant(opened.database, "acme")
            service = opened.providers
            await service.create("acme-smtp", "smtp", {"MAILWRIGHT_SMTP_URL": acme.url}, actor="ada")
            await service.set_route(made.tenant_id, None, "acme-smtp", actor="ada")
        yield made


@pytest.mark.promise("provider-per-tenant")
async def test_tenant_sends_through_its_own_provider(installed: Installation) -> None:
    theirs = [a_message(to=f"a{n}@example.com", tenant_id=installed.tenant_id) for n in range(30)]
    await installed.accept(*theirs, a_message(to="b@example.com"))
    await installed.drain()
    assert installed.recipients(installed.acme) == {f"a{n}@example.com" for n in range(30)}
    assert installed.recipients(installed.own) == {"b@example.com"}


@pytest.mark.promise("provider-per-tenant")
async def test_route_of_source_comes_before_route_of_tenant(installed: Installation) -> None:
    async with installed.open() as opened:
        service = opened.providers
        await service.set_route(installed.tenant_id, Source.NOTIFICATION, None, actor="ada")
        await service.set_route(DEFAULT_TENANT, Source.SEQUENCE, "acme-smtp", actor="ada")
    bulk = {"source": Source.SEQUENCE, "priority": Priority.BULK}
    await installed.accept(
        a_message(to="api@example.com", tenant_id=installed.tenant_id),
        a_message(to="note@example.com", tenant_id=installed.tenant_id, source=Source.NOTIFICATION),
        a_message(to="step@example.com", **bulk),
        a_message(to="news@example.com", priority=Priority.BULK),
    )
    await installed.drain()
    assert installed.recipients(installed.acme) == {"api@example.com", "step@example.com"}
    assert installed.recipients(installed.own) == {"note@example.com", "news@example.com"}


@pytest.mark.promise("provider-per-tenant")
async def test_silent_provider_delays_no_other_tenant(installed: Installation) -> None:
    installed.acme.hang()
    await installed.accept(*(a_message(tenant_id=installed.tenant_id) for _ in range(300)))
    await installed.accept(*(a_message() for _ in range(100)))
    async with installed.open() as opened, asyncio.timeout(60):
        workers = await make_workers(opened)
        running = asyncio.create_task(workers.run())
        await installed.own.received(100)
        await installed.acme.recover()
        workers.stop()
        await running
    assert not installed.recipients(installed.own) & installed.recipients(installed.acme)


@pytest.mark.promise("provider-per-tenant")
async def test_unavailable_provider_is_explained_with_its_name(installed: Installation) -> None:
    await installed.acme.refuse_connections()
    theirs, ours = await installed.accept(a_message(tenant_id=installed.tenant_id), a_message())
    async with installed.open() as opened, asyncio.timeout(60):
        workers = await make_workers(opened)
        running = asyncio.create_task(workers.run())
        await installed.own.received(1)
        state = None
        while state is not ExplanationState.PROVIDER_UNAVAILABLE:
            found = await explain(opened.database, opened.clock, theirs, tenant_id=installed.tenant_id)
            state = found.state
            await asyncio.sleep(0.01)
        assert found.provider == "acme-smtp"
        workers.stop()
        await running
        assert (await explain(opened.database, opened.clock, ours, tenant_id=DEFAULT_TENANT)).state == "sent"
    assert not installed.acme.messages


@pytest.mark.promise("provider-per-tenant")
async def test_unreadable_provider_holds_its_messages_only(installed: Installation) -> None:
    theirs, _ = await installed.accept(a_message(tenant_id=installed.tenant_id), a_message())
    async with installed.open() as opened, opened.database.write() as tx:
        await tx.execute(update(provider_configurations).values(settings="fernet:broken"))
    async with installed.open() as opened, asyncio.timeout(60):
        workers = await make_workers(opened)
        running = asyncio.create_task(workers.run())
        await installed.own.received(1)
        found = None
        while found is None or found.state is not ExplanationState.PROVIDER_UNAVAILABLE:
            found = await explain(opened.database, opened.clock, theirs, tenant_id=installed.tenant_id)
            await asyncio.sleep(0.01)
        workers.stop()
        await running
        assert found.provider == "acme-smtp"
        assert "PROVIDER_UNUSABLE" in (found.provider_error or "")
        assert await statuses(opened.database) == {Status.PENDING: 1, Status.SENT: 1}


async def test_stored_bad_webhook_secret_stops_no_other_tenant(installed: Installation) -> None:
    async with installed.open() as opened:
        for kind, given, _ in WEBHOOK_SECRETS:
            await opened.providers.create(f"their-{kind}", kind, given, actor="ada")
            broken = {field: "bad!" for field in fields_of(kind) if "webhook" in field}

            def spoil(found: ProviderConfiguration, broken: dict[str, str] = broken) -> ProviderChange:
                return ProviderChange({**found.settings, **broken}, keeps_account=True)

            await edit_configuration(opened.database, opened.clock, f"their-{kind}", spoil, actor="ada")
    await installed.accept(a_message())
    await installed.drain()
    assert len(installed.recipients(installed.own)) == 1


@pytest.mark.promise("route-fail-over")
async def test_worker_with_replaced_server_sends_nothing(installed: Installation) -> None:
    async with SmtpSink() as new, installed.open() as opened, asyncio.timeout(60):
        outdated = await make_workers(opened)
        await opened.providers.edit("acme-smtp", {"smtp_url": new.url}, actor="ada")
        await installed.accept(a_message(to="a@example.com", tenant_id=installed.tenant_id))
        await outdated.run(drain=True)
        assert not installed.acme.messages
        await installed.drain()
        assert installed.recipients(new) == {"a@example.com"}


async def test_changed_route_is_explained_and_used_at_once(installed: Installation) -> None:
    [outbox_id] = await installed.accept(a_message(tenant_id=installed.tenant_id))
    later = installed.clock.now() + HOUR
    waits = {"defer_reason": DeferReason.PROVIDER_UNAVAILABLE, "claimable_at": later, "next_attempt_at": later}
    async with installed.open() as opened:
        async with opened.database.write() as tx:
            await tx.execute(update(deliveries).values(provider="acme-smtp", **waits))
        await opened.providers.set_route(installed.tenant_id, None, None, actor="ada")
        found = await explain(opened.database, opened.clock, outbox_id, tenant_id=installed.tenant_id)
        assert (found.state, found.provider) == (ExplanationState.NO_WORKER, None)
    await installed.drain()
    assert len(installed.own.messages) == 1


@pytest.mark.promise("route-fail-over")
async def test_message_in_doubt_waits_for_its_route_to_return(installed: Installation) -> None:
    [outbox_id] = await installed.accept(a_message(tenant_id=installed.tenant_id))
    async with installed.open() as opened:
        async with opened.database.write() as tx:
            await tx.execute(update(deliveries).values(provider="acme-smtp", resends=1, status=Status.RETRY_SCHEDULED))
        await opened.providers.set_route(installed.tenant_id, None, None, actor="ada")
    await installed.drain()
    async with installed.open() as opened:
        found = await explain(opened.database, opened.clock, outbox_id, tenant_id=installed.tenant_id)
        assert (found.state, found.provider) == (ExplanationState.PROVIDER_MISSING, "acme-smtp")
        assert "Route tenant acme to the provider again" in (message_text(found).what_would_change or "")
        assert commands(found)[0] == "mailwright provider route acme-smtp --tenant acme"
        await opened.providers.delete_route(installed.tenant_id, None, actor="ada")
        await opened.providers.set_route(installed.tenant_id, None, "acme-smtp", actor="ada")
    await installed.drain()
    assert not installed.own.messages
    assert len(installed.acme.messages) == 1


async def test_limit_of_provider_defers_its_messages_only(installed: Installation) -> None:
    async with installed.open() as opened:
        await opened.providers.edit("acme-smtp", {"MAILWRIGHT_DAILY_LIMIT": "3"}, actor="ada")
    theirs = [a_message(tenant_id=installed.tenant_id) for _ in range(5)]
    await installed.accept(*theirs, *(a_message() for _ in range(5)))
    await installed.drain()
    assert (len(installed.acme.messages), len(installed.own.messages)) == (3, 5)
    async with installed.open() as opened:
        async with opened.database.read() as tx:
            waiting = select(deliveries.c.message_key).where(deliveries.c.status == Status.PENDING)
            key = (await tx.execute(waiting.limit(1)))[0].message_key
            [row] = await tx.execute(select(messages.c.outbox_id).where(messages.c.id == key))
        await WorkerRegistry(opened.database, opened.clock, "w1").report(WorkerPresence("acme-smtp"))
        found = await explain(opened.database, opened.clock, row.outbox_id, tenant_id=installed.tenant_id)
        assert (found.reason, found.detail) == ("provider_limit", "daily_limit")
        text = message_text(found)
        assert "Daily limit of provider acme-smtp reached" in text.sentence
        assert text.what_would_change == "Raise the daily limit of provider acme-smtp."
        await opened.providers.edit("acme-smtp", {"MAILWRIGHT_DAILY_LIMIT": "10"}, actor="ada")
    await installed.drain()
    assert len(installed.acme.messages) == 5


async def test_dry_run_uses_no_named_provider(installed: Installation) -> None:
    await installed.accept(a_message(tenant_id=installed.tenant_id))
    installed.settings = settings_for(installed.settings.database_url, dry_run=True)
    await installed.drain()
    assert not installed.acme.messages


async def test_lost_work_is_recovered_by_its_own_worker(installed: Installation) -> None:
    await installed.accept(a_message(tenant_id=installed.tenant_id), a_message())
    routes = ProviderRoutes({(installed.tenant_id, None): "acme-smtp"})
    async with installed.open() as opened:
        made = [
            Claims(opened.database, opened.clock, f"worker-{name}", LOCK_TTL, ClaimScope(routes, name))
            for name in (None, "acme-smtp")
        ]
        assert [len(await claims.claim(10)) for claims in made] == [1, 1]
        installed.clock.advance(LOCK_TTL)
        assert all([(await claims.find_lost_work()).has_suspects for claims in made])
        recovered = [await claims.claim_suspects(10) for claims in made]
        assert [[claimed.tenant_id for claimed in found] for found in recovered] == [
            [DEFAULT_TENANT],
            [installed.tenant_id],
        ]


# Administration.


@pytest.mark.parametrize(
    ("name", "kind", "given", "field"),
    [
        ("Acme", "smtp", {}, "name"),
        ("ses", "smtp", {}, "name"),
        ("installation", "smtp", {}, "name"),
        ("acme", "pigeon", {}, "kind"),
        ("acme", "smtp", {}, "MAILWRIGHT_SMTP_URL"),
        ("acme", "smtp", {"MAILWRIGHT_SMTP_URL": "http://x"}, "MAILWRIGHT_SMTP_URL"),
        ("acme", "smtp", {"SENDGRID_API_KEY": "x"}, "SENDGRID_API_KEY"),
        ("acme", "ses", {"AWS_REGION": "eu-west-1"}, "AWS_ACCESS_KEY_ID"),
        ("acme", "sendgrid", {"SENDGRID_API_KEY": "k", "MAILWRIGHT_SENDGRID_URL": "x"}, "MAILWRIGHT_SENDGRID_URL"),
        *(("acme", kind, {**given, secret: "bad!"}, secret) for kind, given, secret in WEBHOOK_SECRETS),
    ],
)
async def test_invalid_provider_is_refused_by_setting(
    installed: Installation, name: str, kind: str, given: dict[str, str], field: str
) -> None:
    async with installed.open() as opened:
        with pytest.raises(InvalidInput) as refused:
            await opened.providers.create(name, kind, given, actor="ada")
        assert refused.value.field == field
        assert len((await opened.providers.list_all()).configurations) == 1


async def test_used_provider_cannot_be_deleted(installed: Installation) -> None:
    async with installed.open() as opened:
        service = opened.providers
        with pytest.raises(ProviderInUse):
            await service.delete("acme-smtp", actor="ada")
        with pytest.raises(ProviderExists):
            await service.create("acme-smtp", "mailbox", {}, actor="ada")
        with pytest.raises(NotFound):
            await service.set_route(installed.tenant_id, None, "nobody", actor="ada")
        await service.delete_route(installed.tenant_id, None, actor="ada")
        await service.delete("acme-smtp", actor="ada")
        assert (await service.list_all()).configurations == ()


@pytest.mark.promise("provider-per-tenant")
async def test_provider_secrets_are_encrypted_and_not_logged(installed: Installation) -> None:
    async with installed.open() as opened:
        service = opened.providers
        await service.create("acme-pm", "postmark", {"POSTMARK_SERVER_TOKEN": "very-secret-token"}, actor="ada")
        await service.edit("acme-pm", {"POSTMARK_WEBHOOK_SECRET": "another-secret-text"}, actor="ada")
        assert (await service.find("acme-pm")).settings["postmark_server_token"] == "very-secret-token"
        async with opened.database.read() as tx:
            stored = str(await tx.execute(provider_configurations.select()))
        entries = str(await list_entries(opened.database, tenant_id=None, limit=50))
        assert "secret-t" not in stored + entries
        assert "provider.edit" in entries
