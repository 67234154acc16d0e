"""Platform keys, and the deletion of tenants, on both engines."""

import pytest

from mailwright.access.api_keys import NO_TENANT, ApiKeys
from mailwright.access.roles import ALL_SCOPES, PLATFORM_SCOPES, Forbidden, Role, Scope
from mailwright.domain.allowed_senders import parse_allowed_senders
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.errors import InvalidInput, NotFound, Unauthorized
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.tenants import TenantInUse
from mailwright.storage.database import Database
from tests.builders import a_tenant, user_store


@pytest.fixture
def keys(database: Database, clock: ManualClock) -> ApiKeys:
    return ApiKeys(database, clock)


async def test_platform_key_belongs_to_no_tenant(keys: ApiKeys) -> None:
    made = await keys.issue(None, "ops", PLATFORM_SCOPES, actor="ada")
    caller = await keys.authenticate_key(made.key)
    assert (caller.tenant_id, caller.scopes, caller.audit_name) == (NO_TENANT, PLATFORM_SCOPES, "api:ops")
    with pytest.raises(Forbidden, match="belongs to no tenant"):
        caller.require(Scope.READ)
    await keys.create(1, "shop")
    assert [key.name for key in await keys.list_all(None)] == ["ops"]
    assert [key.name for key in await keys.list_all(1)] == ["shop"]
    assert (await keys.find(made.id)).tenant is None


async def test_scopes_belong_to_one_kind_of_key(keys: ApiKeys) -> None:
    for tenant, scopes in ((None, ALL_SCOPES), (None, frozenset({Scope.PLATFORM_READ, Scope.SEND}))):
        with pytest.raises(InvalidInput, match="platform_read, platform_manage"):
            await keys.create(tenant, "wrong", scopes)
    with pytest.raises(InvalidInput, match="send, events, read, propose, manage"):
        await keys.create(1, "wrong", PLATFORM_SCOPES)
    with pytest.raises(InvalidInput, match="no senders"):
        await keys.create(None, "wrong", PLATFORM_SCOPES, parse_allowed_senders(["news@example.com"]))
    with pytest.raises(InvalidInput, match="cannot sign"):
        await keys.issue(None, "wrong", PLATFORM_SCOPES, signs=True)


async def test_owner_of_a_platform_key_works_for_the_installation(
    keys: ApiKeys, database: Database, clock: ManualClock
) -> None:
    users = user_store(database, clock)
    await users.create("ada", "correct horse battery", Role.ADMIN, actor="test")
    await users.create("grace", "correct horse battery", Role.ADMIN, tenant_id=1, actor="test")
    made = await keys.issue(None, "ops", PLATFORM_SCOPES, owner="ada")
    with pytest.raises(InvalidInput, match="grace"):
        await keys.set_owner(None, made.id, "grace", actor="test")
    with pytest.raises(NotFound):
        await keys.set_owner(1, made.id, "ada", actor="test")


async def test_each_change_of_a_key_is_audited_once(keys: ApiKeys, database: Database) -> None:
    made = await keys.issue(None, "ops", PLATFORM_SCOPES, actor="ada")
    with pytest.raises(NotFound):
        await keys.revoke(1, made.id, actor="ada")
    for _ in range(2):
        await keys.revoke(None, made.id, actor="ada")
    entries = await list_entries(database, tenant_id=None, limit=10)
    assert [(entry.action, entry.actor) for entry in entries] == [("key_revoke", "ada"), ("key_create", "ada")]
    assert made.key not in str(entries)
    with pytest.raises(Unauthorized):
        await keys.authenticate_key(made.key)


async def test_only_an_unused_tenant_can_be_deleted(keys: ApiKeys, database: Database, clock: ManualClock) -> None:
    tenant = await a_tenant(database, "acme")
    made = await keys.issue(tenant, "shop", actor="ada")
    with pytest.raises(TenantInUse, match="always exists"):
        await tenants.delete(database, clock, "default", actor="ada")
    with pytest.raises(TenantInUse, match="Revoke them first"):
        await tenants.delete(database, clock, "acme", actor="ada")
    await keys.revoke(tenant, made.id)
    with pytest.raises(TenantInUse, match="a minute later"):
        await tenants.delete(database, clock, "acme", actor="ada")
    clock.advance(MINUTE)
    await tenants.delete(database, clock, "acme", actor="ada")
    with pytest.raises(NotFound):
        await tenants.find(database, "acme")
    again = await tenants.create(database, clock, "acme")
    assert await list_entries(database, tenant_id=again.id, limit=10) == []
    assert await keys.list_all(again.id) == []
    newest, *_ = await list_entries(database, tenant_id=None, limit=10)
    assert (newest.action, newest.actor, newest.subject) == ("tenant.delete", "ada", "acme")


async def test_tenant_with_data_is_kept(database: Database, clock: ManualClock) -> None:
    tenant = await a_tenant(database, "acme")
    await user_store(database, clock).create(
        "grace", "correct horse battery", Role.VIEWER, tenant_id=tenant, actor="test"
    )
    with pytest.raises(TenantInUse, match=r"has data \(users\)"):
        await tenants.delete(database, clock, "acme", actor="ada")
    assert (await tenants.find(database, "acme")).id == tenant
