"""API keys with scopes. A key belongs to one tenant or, as a platform key, to the installation.

A key is shown once and stored as a digest.
"""

import asyncio
import hashlib
import re
import secrets
from dataclasses import field
from typing import Any, Final

from sqlalchemy import insert, or_, select, update

from mailwright.access.roles import ALL_SCOPES, PLATFORM_SCOPES, Forbidden, Scope, check_scopes
from mailwright.domain.allowed_senders import AllowedSenders
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow, Unauthorized
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.audit_log import API, record
from mailwright.storage.database import PROMPT_SECONDS, Database, Transaction
from mailwright.storage.tables import api_keys, tenants, users

PREFIX = "mw_"
_ID_PREFIX = "MWAK"
_RANDOM_BYTES = 32
# The tenant of a caller who manages the installation. No tenant has this id, so that no query finds data of one.
NO_TENANT: Final = 0

# Cache key lookups for this time, because a lookup per request would cost more than the rest of the request. A revoked
# key stops working at once in the process that revokes it, and after this time in the other processes.
CACHE_TIME: Instant = SECOND
# Maximum number of cached keys, far more than one installation has. Unknown keys are never cached.
_MAX_CACHED = 10_000

_KEY = re.compile(rf"{PREFIX}[\w-]{{43}}", re.ASCII)
_BEARER = re.compile(r"bearer +(\S{1,200})", re.IGNORECASE)


class PlatformKeyRequired(Forbidden):
    """Only platform keys can do this."""

    code = "PLATFORM_KEY_REQUIRED"


class TenantKeyRequired(Forbidden):
    """A platform key belongs to no tenant. Use a key of the tenant."""

    code = "TENANT_KEY_REQUIRED"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls the API. Every query of a request is limited to this tenant.

    A caller who manages the installation has `NO_TENANT`, and platform scopes only.
    """

    tenant_id: int
    tenant: str
    scopes: frozenset[Scope] = ALL_SCOPES
    actor: str | None = None  # the signed-in user; None for an API key
    key_name: str = ""  # the name of the API key
    senders: AllowedSenders | None = None  # None: every sender

    @property
    def audit_name(self) -> str:
        """The caller in the audit log: a user by login, an API key as `api:` and its name."""
        return self.actor or (f"{API}:{self.key_name}" if self.key_name else API)

    def allows(self, scope: Scope) -> bool:
        return any(own.allows(scope) for own in self.scopes)

    def require(self, scope: Scope) -> None:
        if self.allows(scope):
            return
        if scope.is_platform:
            raise PlatformKeyRequired(
                "This API key lacks the `{scope}` scope. Only platform keys can have it.", scope=scope
            )
        if self.tenant_id == NO_TENANT:
            raise TenantKeyRequired(
                "This API key lacks the `{scope}` scope: a platform key belongs to no tenant. Use a key of the tenant.",
                scope=scope,
            )
        raise Forbidden("This API key lacks the `{scope}` scope.", scope=scope)

    def require_tenant(self) -> None:
        if self.tenant_id == NO_TENANT:
            raise TenantKeyRequired


def platform_caller(actor: str) -> Caller:
    """Return the caller for a person who may manage the whole installation."""
    return Caller(NO_TENANT, "", PLATFORM_SCOPES, actor)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret, safe to show. `hint` is the last four characters of the key."""

    id: int
    tenant: str | None  # None: a platform key
    name: str
    hint: str
    scopes: frozenset[Scope]
    senders: AllowedSenders | None  # None: every sender
    owner: str | None  # the user who answers for what the key does
    created_at: Instant
    revoked_at: Instant | None


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An API key and, if it can sign requests to the API of SES, the id that names it there."""

    access_key_id: str
    key: str = field(repr=False)
    id: int = 0


class ApiKeys:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._cached: dict[str, tuple[Caller, Instant]] = {}
        self._looking: dict[str, asyncio.Task[Caller]] = {}

    async def create(
        self,
        tenant_id: int | None,
        name: str = "",
        scopes: frozenset[Scope] = ALL_SCOPES,
        senders: AllowedSenders | None = None,
        *,
        owner: str | None = None,
        actor: str | None = None,
    ) -> str:
        """Return the new key. It cannot be read again later. Without a tenant, it is a platform key.

        If `actor` is given, record the action in the audit log.
        """
        return (await self.issue(tenant_id, name, scopes, senders, owner=owner, actor=actor)).key

    async def issue(
        self,
        tenant_id: int | None,
        name: str = "",
        scopes: frozenset[Scope] = ALL_SCOPES,
        senders: AllowedSenders | None = None,
        *,
        signs: bool = False,
        owner: str | None = None,
        actor: str | None = None,
    ) -> KeyPair:
        """Create a key as `create` does. With `signs`, it also signs requests to the API of SES.

        Such a key is stored encrypted too, because signatures need it.
        """
        if len(name) > 100 or not name.isprintable():
            raise InvalidInput("The name of a key can have at most 100 printable characters.", field="name")
        check_scopes(scopes, is_platform=tenant_id is None)
        if tenant_id is None and senders is not None:
            raise InvalidInput("A platform key sends no email, so it has no senders.", field="senders")
        if tenant_id is None and signs:
            raise InvalidInput("A platform key sends no email, so it cannot sign requests to SES.")
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        access_key_id = _ID_PREFIX + secrets.token_hex(8).upper() if signs else ""
        values = {
            "tenant_id": tenant_id,
            "name": name,
            "hint": key[-4:],
            "digest": _digest(key),
            "scopes": _join_scopes(scopes),
            "senders": " ".join(sorted(senders.entries)) if senders is not None else None,
            "created_at": self._clock.now(),
            "owner": owner,
        }
        async with self._database.write() as tx:
            if owner is not None:
                values["owner"] = await _find_owner(tx, tenant_id, owner)
            if signs:
                encrypted = await self._database.secret_box.encrypt(tx, key)
                values |= {"access_key_id": access_key_id, "encrypted_key": encrypted}
            [made] = await tx.execute(insert(api_keys).values(**values).returning(api_keys.c.id))
            allowed = sorted(senders.entries) if senders is not None else None
            detail = {"name": name, "scopes": sorted(scopes), "senders": allowed}
            if actor is not None:
                entry = {"actor": actor, "action": "key_create", "subject": key[-4:]}
                await record(tx, self._clock.now(), **entry, tenant_id=tenant_id, detail=detail)
        return KeyPair(access_key_id, key, made.id)

    async def list_all(self, tenant_id: int | None) -> list[ApiKey]:
        """List the keys of a tenant; without a tenant, the platform keys."""
        async with self._database.read() as tx:
            return [_api_key(row) for row in await tx.execute(_select_key(api_keys.c.tenant_id == tenant_id))]

    async def find(self, key_id: int) -> ApiKey:
        """Find a key by its id, which is unique in the installation."""
        async with self._database.read() as tx:
            rows = await tx.execute(_select_key(api_keys.c.id == key_id))
        if not rows:
            raise NotFound("There is no API key with this ID.")
        return _api_key(rows[0])

    async def set_owner(
        self, tenant_id: int | None, key_id: int, login: str, *, actor: str, must_be_free: bool = False
    ) -> str:
        """Set the owner of a key, the user who is responsible for it, and return the user name.

        With `must_be_free`, raise if the key has an owner.
        """
        k = api_keys.c
        async with self._database.write() as tx:
            rows = await tx.execute(
                select(k.owner, k.name).where(k.id == key_id, k.tenant_id == tenant_id).with_for_update()
            )
            if not rows:
                raise NotFound("There is no API key with this ID.")
            if must_be_free and rows[0].owner is not None:
                raise NotPossibleNow(
                    "The owner of this API key is {owner}. Only the command line can change it.", owner=rows[0].owner
                )
            owner = await _find_owner(tx, tenant_id, login)
            await tx.execute(update(api_keys).where(k.id == key_id).values(owner=owner))
            detail = {"name": rows[0].name, "from": rows[0].owner, "to": owner}
            now, subject = self._clock.now(), str(key_id)
            await record(tx, now, actor=actor, action="key_owner", subject=subject, tenant_id=tenant_id, detail=detail)
        return owner

    async def revoke(self, tenant_id: int | None, key_id: int, *, actor: str | None = None) -> None:
        """Revoke a key. Revoking it again keeps the time of the first revocation."""
        k = api_keys.c
        matching = (k.id == key_id, k.tenant_id == tenant_id)
        async with self._database.write() as tx:
            rows = await tx.execute(select(k.name).where(*matching))
            if not rows:
                raise NotFound("There is no API key with this ID.")
            revoked = {"revoked_at": self._clock.now(), "encrypted_key": None}
            changed = update(api_keys).where(*matching, k.revoked_at.is_(None)).values(**revoked)
            if await tx.execute(changed.returning(k.id)) and actor is not None:
                now, subject = self._clock.now(), str(key_id)
                entry = {"actor": actor, "action": "key_revoke", "subject": subject}
                await record(tx, now, **entry, tenant_id=tenant_id, detail={"name": rows[0].name})
        self._cached.clear()

    async def authenticate(self, authorization: str | None) -> Caller:
        """Return the caller that an `Authorization` header identifies. Every failure raises the same error."""
        bearer = _BEARER.fullmatch(authorization or "")
        if bearer is None:
            raise Unauthorized
        return await self.authenticate_key(bearer[1])

    async def authenticate_key(self, key: str) -> Caller:
        """Return the caller with this API key."""
        if not key.startswith(PREFIX):
            raise Unauthorized
        digest, now = _digest(key), self._clock.now()
        caller, until = self._cached.get(digest, (None, 0))
        if caller is None or now >= until:
            caller = await self._look_up_once(digest)
            self._cache(digest, caller, now + CACHE_TIME)
        return caller

    async def find_key(self, access_key_id: str) -> str:
        """Return the key that signs requests with this id."""
        k = api_keys.c
        wanted = (k.access_key_id == access_key_id, k.encrypted_key.is_not(None), k.revoked_at.is_(None))
        async with self._database.read(within=PROMPT_SECONDS) as tx:
            rows = await tx.execute(select(k.encrypted_key).where(*wanted))
        if not rows:
            raise Unauthorized
        return self._database.secret_box.decrypt(rows[0].encrypted_key)

    async def _look_up_once(self, digest: str) -> Caller:
        """Let concurrent requests with one key share a lookup."""
        looking = self._looking.get(digest)
        if looking is None:
            looking = self._looking[digest] = asyncio.create_task(self._look_up(digest))
            looking.add_done_callback(lambda _: self._looking.pop(digest, None))
        return await asyncio.shield(looking)

    async def _look_up(self, digest: str) -> Caller:
        k = api_keys.c
        query = (
            select(k.tenant_id, tenants.c.id, tenants.c.name, k.scopes, k.name.label("key_name"), k.senders)
            .select_from(api_keys.outerjoin(tenants, tenants.c.id == k.tenant_id))
            .where(k.digest == digest, k.revoked_at.is_(None))
        )
        async with self._database.read(within=PROMPT_SECONDS) as tx:
            rows = await tx.execute(query)
        # A key of a tenant that does not exist is no platform key.
        if not rows or rows[0].id != rows[0].tenant_id:
            self._cached.pop(digest, None)
            raise Unauthorized
        row = rows[0]
        is_platform = row.tenant_id is None
        return Caller(
            NO_TENANT if is_platform else row.id,
            row.name or "",
            _split_scopes(row.scopes) & (PLATFORM_SCOPES if is_platform else ALL_SCOPES),
            key_name=row.key_name,
            senders=_split_senders(row.senders),
        )

    def _cache(self, digest: str, caller: Caller, until: Instant) -> None:
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[digest] = (caller, until)


def _select_key(condition: Any) -> Any:
    k, tenant = api_keys.c, tenants.c.name.label("tenant")
    return (
        select(k.id, tenant, k.name, k.hint, k.scopes, k.senders, k.owner, k.created_at, k.revoked_at)
        .select_from(api_keys.outerjoin(tenants, tenants.c.id == k.tenant_id))
        .where(condition)
        .order_by(k.id)
    )


def _api_key(row: Any) -> ApiKey:
    return ApiKey(**{**row._mapping, "scopes": _split_scopes(row.scopes), "senders": _split_senders(row.senders)})


async def _find_owner(tx: Transaction, tenant_id: int | None, login: str) -> str:
    """Return the name of a user who works for the tenant or, for a platform key, for the installation. Or raise."""
    u, name = users.c, login.strip().lower()
    works_here = u.tenant_id.is_(None) if tenant_id is None else or_(u.tenant_id.is_(None), u.tenant_id == tenant_id)
    if not await tx.execute(select(u.id).where(u.login == name, works_here, u.disabled_at.is_(None))):
        raise InvalidInput("There is no enabled user {name} of this tenant.", field="owner", name=name[:80])
    return name


def is_api_key(text: str) -> bool:
    """Return whether a text has the form of an API key, valid or not."""
    return _KEY.fullmatch(text) is not None


def _join_scopes(scopes: frozenset[Scope]) -> str:
    return " ".join(scope for scope in Scope if scope in scopes)


def _split_scopes(stored: str) -> frozenset[Scope]:
    return frozenset(Scope(word) for word in stored.split())


def _split_senders(stored: str | None) -> AllowedSenders | None:
    return None if stored is None else AllowedSenders(frozenset(stored.split()))


def _digest(key: str) -> str:
    """Return the digest of a key. A plain hash is enough for 256 random bits; only passwords need a slow one.

    The lookup by digest also prevents timing attacks: nobody can choose a digest without knowing the key.
    """
    return hashlib.sha256(key.encode()).hexdigest()
