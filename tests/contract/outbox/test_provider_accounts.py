"""The server and account of a named provider: nobody replaces them while they may have unfinished messages."""

import asyncio
from dataclasses import replace

import pytest

from mailwright.app.named_providers import ProviderService
from mailwright.domain.clock import ManualClock
from mailwright.domain.states import Resolution, Status
from mailwright.outbox.operations import Operations
from mailwright.outbox.provider_configurations import ProviderChanged, ProviderConfiguration, ProviderHasMessages
from mailwright.outbox.settle import ProviderAccount, Settler
from mailwright.providers.ses.kind import aws_account
from mailwright.storage.database import Database
from tests.builders import (
    DEFAULT_TENANT,
    LOCK_TTL,
    REFUSAL,
    Attempt,
    a_message,
    a_result,
    an_acceptor,
    an_in_doubt_handler,
    claims_of,
    deliveries_of,
    settings_for,
)

NAME = "acme-smtp"
URL = "smtp://ada:secret@mail.example.com:587"
OTHER = "smtp://ada:secret@mail.example.net:587"


@pytest.fixture
async def service(database: Database, clock: ManualClock) -> ProviderService:
    made = ProviderService(settings_for("sqlite:///unused.db"), database, clock)
    await made.create(NAME, "smtp", {"smtp_url": URL}, actor="ada")
    return made


def settler_of(database: Database, clock: ManualClock, found: ProviderConfiguration) -> Settler:
    return Settler(database, clock, account=ProviderAccount(found.name, found.account))


async def begin_one(database: Database, clock: ManualClock, service: ProviderService) -> str:
    """Accept a message and begin its attempt with the provider."""
    [accepted] = await an_acceptor(database, clock).accept([a_message()])
    claimed = await claims_of(database, clock).claim(1)
    begun = await settler_of(database, clock, await service.find(NAME)).exchange([], [Attempt(claimed[0], NAME)])
    assert len(begun.message_keys) == 1
    return accepted.outbox_id


async def refusals(service: ProviderService) -> str:
    """Return why the server can neither be replaced nor deleted."""
    with pytest.raises(ProviderHasMessages) as replaced:
        await service.edit(NAME, {"smtp_url": OTHER}, actor="ada")
    with pytest.raises(ProviderHasMessages) as deleted:
        await service.delete(NAME, actor="ada")
    assert str(replaced.value) == str(deleted.value)
    return str(replaced.value)


@pytest.mark.promise("route-fail-over")
async def test_server_with_unfinished_messages_cannot_be_replaced(
    database: Database, clock: ManualClock, service: ProviderService
) -> None:
    outbox_id = await begin_one(database, clock, service)
    assert "0 in doubt, 1 being sent and 0 waiting" in await refusals(service)
    clock.advance(LOCK_TTL)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    text = await refusals(service)
    assert "1 in doubt, 0 being sent and 0 waiting" in text
    assert "Resolve those in doubt" in text
    operations = Operations(database, clock)
    await operations.resolve(outbox_id, Resolution.RESEND, tenant_id=DEFAULT_TENANT)
    assert "0 in doubt, 0 being sent and 1 waiting" in await refusals(service)
    assert (await service.find(NAME)).settings["smtp_url"] == URL
    await operations.cancel(outbox_id, tenant_id=DEFAULT_TENANT)
    await service.edit(NAME, {"smtp_url": OTHER}, actor="ada")
    await service.delete(NAME, actor="ada")


async def test_password_of_same_account_changes_at_any_time(
    database: Database, clock: ManualClock, service: ProviderService
) -> None:
    await begin_one(database, clock, service)
    before = await service.find(NAME)
    changed = {"smtp_url": URL.replace("secret", "other"), "smtp_connections": "3"}
    after = await service.edit(NAME, changed, actor="ada")
    assert after.account == before.account
    assert after.settings == changed


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("recreates", [False, True])
async def test_attempt_with_replaced_account_does_not_begin(
    database: Database, clock: ManualClock, service: ProviderService, *, recreates: bool
) -> None:
    settler = settler_of(database, clock, await service.find(NAME))
    await an_acceptor(database, clock).accept([a_message()])
    claimed = await claims_of(database, clock).claim(1)
    if recreates:
        await service.delete(NAME, actor="ada")
        await service.create(NAME, "smtp", {"smtp_url": OTHER}, actor="ada")
    else:
        await service.edit(NAME, {"smtp_url": OTHER}, actor="ada")
    begun = await settler.exchange([], [Attempt(claimed[0], NAME)])
    assert begun.is_account_replaced
    assert not begun.message_keys
    assert [row.status for row in await deliveries_of(database)] == [Status.PENDING]


async def test_retried_failure_never_reaches_the_new_server(
    database: Database, clock: ManualClock, service: ProviderService
) -> None:
    outbox_id = await begin_one(database, clock, service)
    clock.advance(LOCK_TTL)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await Operations(database, clock).resolve(outbox_id, Resolution.RESEND, tenant_id=DEFAULT_TENANT)
    [claimed] = await claims_of(database, clock).claim(1)
    settler = settler_of(database, clock, await service.find(NAME))
    await settler.exchange([], [Attempt(claimed, NAME)])
    await settler.exchange([a_result(claimed, replace(REFUSAL, provider=NAME), clock.now())], [])
    await service.edit(NAME, {"smtp_url": OTHER}, actor="ada")
    await Operations(database, clock).requeue(outbox_id, tenant_id=DEFAULT_TENANT)
    [claimed] = await claims_of(database, clock).claim(1)
    assert claimed.only_provider == f"{NAME}:former"


async def test_concurrent_edits_keep_each_other(service: ProviderService) -> None:
    await asyncio.gather(
        service.edit(NAME, {"smtp_url": OTHER}, actor="ada"),
        service.edit(NAME, {"smtp_connections": "3"}, actor="bob"),
        service.edit(NAME, {"oauth_scope": "mail"}, actor="eve"),
    )
    wanted = {"smtp_url": OTHER, "smtp_connections": "3", "oauth_scope": "mail"}
    assert (await service.find(NAME)).settings == wanted


async def test_edit_of_outdated_form_is_refused(service: ProviderService) -> None:
    seen = await service.find(NAME)
    await service.edit(NAME, {"smtp_connections": "3"}, actor="bob", seen_at=seen.updated_at)
    with pytest.raises(ProviderChanged, match="was just changed by bob"):
        await service.edit(NAME, {"smtp_connections": "4"}, actor="ada", seen_at=seen.updated_at)


def test_rotated_aws_key_has_the_same_account() -> None:
    assert aws_account("ASIAQNZGKIQY56JQ7WML") == "29608264753"
    assert aws_account("short") == "short"
