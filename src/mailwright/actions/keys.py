"""API keys: those of tenants, and platform keys, which belong to the installation."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.access.api_keys import ApiKey, ApiKeys
from mailwright.access.roles import ALL_SCOPES, PLATFORM_SCOPES, Forbidden, Scope
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    PLATFORM_MANAGE,
    PLATFORM_READ,
    Noun,
    Option,
    Table,
    time_of,
)
from mailwright.domain.allowed_senders import parse_allowed_senders
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import ResponseModel, Time, combine, extend
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "key",
    "API keys.",
    "/v1/keys",
    reads=PLATFORM_READ,
    parameters={"key_id": ("ID", "The id shown by `key list`.")},
)

_TenantName = Annotated[str, Field(max_length=200)]
_Owner = Annotated[str, Field(max_length=200), Option(metavar="LOGIN")]


class KeysQuery(RequestModel):
    tenant: Annotated[_TenantName | None, Option(default="default"), Field(description="The tenant.")] = None
    platform: Annotated[bool, Option("--platform"), Field(description="Platform keys, which have no tenant.")] = False


class ApiKeyRequest(RequestModel):
    """A key of a tenant or, with `platform`, of the installation. Without `scopes`, it has all that its kind can have.

    A platform key manages tenants, keys, users, settings and providers. It reaches no data of a tenant.
    """

    tenant: Annotated[
        _TenantName | None, Option(default="default"), Field(description="The tenant that the key belongs to.")
    ] = None
    platform: Annotated[
        bool,
        Option("--platform"),
        Field(description="Create a platform key, which manages the installation and belongs to no tenant."),
    ] = False
    name: Annotated[str, Field(max_length=200, description="What the key is for, for example shop-backend.")] = ""
    scopes: Annotated[
        tuple[Scope, ...] | None,
        Option("--scope", default="all scopes"),
        Field(min_length=1, max_length=len(Scope), description="A scope; can be repeated."),
    ] = None
    senders: Annotated[
        tuple[Annotated[str, Field(max_length=400)], ...],
        Option("--sender", default="every sender"),
        Field(
            max_length=200,
            description="An address (news@example.com) or domain (@example.com) that the key may send from; can be "
            "repeated.",
        ),
    ] = ()
    owner: Annotated[
        _Owner | None,
        Option(default="nobody", metavar="LOGIN"),
        Field(description="The user who is responsible for the key, and therefore cannot approve its requests."),
    ] = None
    ses: Annotated[
        bool,
        Option("--ses"),
        Field(description="Create a key pair that signs requests of the SDKs of AWS to /v2/email."),
    ] = False


class ApiKeyUpdateRequest(RequestModel):
    owner: Annotated[_Owner, Field(description="The user who is responsible for the key.")]
    tenant: Annotated[_TenantName | None, Field(description="Only if the key belongs to this tenant.")] = None


class KeyTenantQuery(RequestModel):
    tenant: Annotated[_TenantName | None, Field(description="Only if the key belongs to this tenant.")] = None


class ApiKeyResponse(ResponseModel):
    """An API key without its secret. `hint`: its last four characters. `senders` is null if it may use all.

    `tenant` is null for a platform key.
    """

    id: int
    tenant: str | None
    name: str
    hint: str
    scopes: list[Scope]
    senders: list[str] | None
    owner: str | None
    created_at: Time
    revoked_at: Time | None


class ApiKeySecretResponse(ApiKeyResponse):
    """`key` is shown only in this response. `accessKeyId`: its id in signatures, if it is a key pair."""

    key: str
    access_key_id: str | None


class ApiKeyListResponse(ResponseModel):
    keys: list[ApiKeyResponse]


def _secret(made: ApiKeySecretResponse, _given: Mapping[str, Any]) -> Iterator[str]:
    if made.access_key_id is None:
        yield made.key
    else:
        yield f"AWS_ACCESS_KEY_ID={made.access_key_id}\nAWS_SECRET_ACCESS_KEY={made.key}"


@noun.post(scope=PLATFORM_MANAGE, audit="key_create", command="create", shown=_secret)
async def create(at: Context, wanted: ApiKeyRequest) -> ApiKeySecretResponse:
    """Create a key. It is shown only once; commands print nothing else on stdout.

    Mailwright stores the digest of a key. With `ses`, it creates a key pair and stores the secret encrypted as well,
    because signatures cannot be verified with a digest. The secret is a key for all routes.
    """
    home = await _home(at, wanted.tenant, is_platform=wanted.platform)
    if any(not sender.strip() for sender in wanted.senders):
        # An empty one, for example of an unset shell variable, must not mean every sender.
        raise InvalidInput("A sender is empty. Name an address or a domain, or leave it out.", field="senders")
    owner = _own(at, wanted.owner) if _is_person(at) else wanted.owner
    scopes = frozenset(wanted.scopes or (PLATFORM_SCOPES if wanted.platform else ALL_SCOPES))
    senders = parse_allowed_senders(wanted.senders)
    made = await keys(at).issue(home, wanted.name, scopes, senders, signs=wanted.ses, owner=owner, actor=at.actor)
    found = key_response(await keys(at).find(made.id))
    return extend(ApiKeySecretResponse, found, key=made.key, access_key_id=made.access_key_id or None)


@noun.get(
    command="list",
    shown=Table(
        "keys",
        {
            "Id#": "id",
            "Key!": lambda each: f"…{each.hint}",
            "Name": lambda each: each.name or "–",
            "Scopes": lambda each: ", ".join(each.scopes),
            "Senders": lambda each: ", ".join(each.senders or ()) or "every sender",
            "Owner": lambda each: each.owner or "nobody",
            "Created ({zone})!": time_of("created_at"),
            "Revoked ({zone})!": time_of("revoked_at"),
        },
        nothing="There are no keys. Create one with `mailwright key create`.",
    ),
)
async def list_keys(at: Context, query: KeysQuery) -> ApiKeyListResponse:
    """List a tenant's keys, including revoked ones, with their last four characters."""
    home = await _home(at, query.tenant, is_platform=query.platform)
    return ApiKeyListResponse(keys=[key_response(each) for each in await keys(at).list_all(home)])


@noun.get("/{keyId}")
async def show(at: Context, key_id: str) -> ApiKeyResponse:
    """Show a key without its secret."""
    return key_response(await _find(at, key_id))


@noun.patch(
    "/{keyId}",
    scope=PLATFORM_MANAGE,
    audit="key_owner",
    command="edit",
    shown="The owner of key {key_id} is now {owner}.",
)
async def edit(at: Context, key_id: str, wanted: ApiKeyUpdateRequest) -> ApiKeyResponse:
    """Change the owner of a key. If a tenant requires approvals, only keys with an owner can request them."""
    found = await _find(at, key_id, wanted.tenant)
    owner = _own(at, wanted.owner) if _is_person(at) else wanted.owner
    home = await _home(at, found.tenant, is_platform=found.tenant is None)
    await keys(at).set_owner(home, found.id, owner or "", actor=at.actor, must_be_free=_is_person(at))
    return key_response(await keys(at).find(found.id))


@noun.delete("/{keyId}", scope=PLATFORM_MANAGE, audit="key_revoke", command="revoke", shown="Key {key_id} revoked.")
async def revoke(at: Context, key_id: str, query: KeyTenantQuery) -> None:
    """Revoke a key permanently. It stops working within one second."""
    found = await _find(at, key_id, query.tenant)
    home = await _home(at, found.tenant, is_platform=found.tenant is None)
    await keys(at).revoke(home, found.id, actor=at.actor)


def keys(at: Context) -> ApiKeys:
    """Return the keys of the running server, whose cache forgets a revoked key at once."""
    return ApiKeys(at.database, at.clock) if at.engine is None else at.engine.keys


def key_response(key: ApiKey) -> ApiKeyResponse:
    senders = None if key.senders is None else sorted(key.senders.entries)
    return combine(ApiKeyResponse, key, scopes=[scope for scope in Scope if scope in key.scopes], senders=senders)


async def _home(at: Context, name: str | None, *, is_platform: bool) -> int | None:
    """Return the tenant of a key; None for a platform key."""
    if not is_platform:
        return (await tenants.find(at.database, tenants.DEFAULT if name is None else name)).id
    if name is not None:
        raise InvalidInput("A platform key belongs to no tenant. Leave out the tenant.", field="tenant")
    return None


async def _find(at: Context, key_id: str, tenant: str | None = None) -> ApiKey:
    is_number = key_id.isascii() and key_id.isdigit() and len(key_id) <= 18
    found = await keys(at).find(int(key_id) if is_number else 0)
    if tenant is not None and found.tenant != tenant:
        raise NotFound("There is no API key with this ID.")
    return found


def _is_person(at: Context) -> bool:
    """Whether a signed-in user asks, and neither a platform key nor the command line."""
    return at.caller.actor not in (None, CONSOLE)


def _own(at: Context, owner: str | None) -> str:
    """Return the user as the owner. They cannot name somebody else and then approve what the key requests."""
    if owner not in (None, at.actor):
        raise Forbidden("You can only become the owner of a key yourself.")
    return at.actor
