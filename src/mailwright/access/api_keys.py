"""API keys: each belongs to one tenant and has scopes. A key is shown once and stored as a digest."""

import asyncio
import hashlib
import re
import secrets
from dataclasses import dataclass, field

from sqlalchemy import insert, or_, select, update

from mailwright.access.roles import ALL_SCOPES, Forbidden, Scope
from mailwright.domain.allowed_senders import AllowedSenders
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow, Unauthorized
from mailwright.outbox.audit_log import API, record
from mailwright.storage.database import PROMPT_SECONDS, Database, Transaction
from mailwright.storage.tables import api_keys, tenants, users

PREFIX = "mw_"
_ID_PREFIX = "MWAK"
_RANDOM_BYTES = 32

# Cache key lookups for this time, because a lookup per request would cost more than the rest of the request. A revoked
# key stops working at once in the process that revokes it, and after this time in the other processes.
CACHE_TIME: Instant = SECOND
# Maximum number of cached keys, far more than one installation has. Unknown keys are never cached.
_MAX_CACHED = 10_000

_KEY = re.compile(rf"{PREFIX}[\w-]{{43}}", re.ASCII)
_BEARER = re.compile(r"bearer +(\S{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls the API. Every query of a request is limited to this tenant."""

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
        if not self.allows(scope):
            raise Forbidden("This API key lacks the `{scope}` scope.", scope=scope)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret, safe to show. `hint` is the last four characters of the key."""

    id: int
    tenant: str
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


class ApiKeys:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._cached: dict[str, tuple[Caller, Instant]] = {}
        self._looking: dict[str, asyncio.Task[Caller]] = {}

    async def create(
        self,
        tenant_id: int,
        name: str = "",
        scopes: frozenset[Scope] = ALL_SCOPES,
        senders: AllowedSenders | None = None,
        *,
        owner: str | None = None,
    ) -> str:
        """Return the new key. It cannot be read again later."""
        return (await self._create(tenant_id, name, scopes, senders, owner=owner)).key

    async def create_pair(
        self,
        tenant_id: int,
        name: str = "",
        scopes: frozenset[Scope] = ALL_SCOPES,
        senders: AllowedSenders | None = None,
        *,
        owner: str | None = None,
    ) -> KeyPair:
        """Return a new key that also signs requests. It is stored encrypted too, because signatures need it."""
        access_key_id = _ID_PREFIX + secrets.token_hex(8).upper()
        return await self._create(tenant_id, name, scopes, senders, access_key_id, owner=owner)

    async def _create(
        self,
        tenant_id: int,
        name: str,
        scopes: frozenset[Scope],
        senders: AllowedSenders | None,
        access_key_id: str | None = None,
        *,
        owner: str | None,
    ) -> KeyPair:
        if len(name) > 100 or not name.isprintable():
            raise InvalidInput("The name of a key can have at most 100 printable characters.", field="name")
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
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
            if access_key_id is not None:
                encrypted = await self._database.secret_box.encrypt(tx, key)
                values |= {"access_key_id": access_key_id, "encrypted_key": encrypted}
            await tx.execute(insert(api_keys).values(**values))
        return KeyPair(access_key_id or "", key)

    async def list_all(self, tenant_id: int) -> list[ApiKey]:
        k = api_keys.c
        query = (
            select(
                k.id,
                tenants.c.name.label("tenant"),
                k.name,
                k.hint,
                k.scopes,
                k.senders,
                k.owner,
                k.created_at,
                k.revoked_at,
            )
            .select_from(api_keys.join(tenants, tenants.c.id == k.tenant_id))
            .where(k.tenant_id == tenant_id)
            .order_by(k.id)
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return [
            ApiKey(**{**row._mapping, "scopes": _split_scopes(row.scopes), "senders": _split_senders(row.senders)})
            for row in rows
        ]

    async def set_owner(
        self, tenant_id: int, key_id: int, login: str, *, actor: str, must_be_free: bool = False
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

    async def revoke(self, tenant_id: int, key_id: int) -> None:
        """Revoke a key. Revoking it again keeps the time of the first revocation."""
        k = api_keys.c
        matching = (k.id == key_id, k.tenant_id == tenant_id)
        async with self._database.write() as tx:
            if not await tx.execute(select(k.id).where(*matching)):
                raise NotFound("There is no API key with this ID.")
            revoked = {"revoked_at": self._clock.now(), "encrypted_key": None}
            await tx.execute(update(api_keys).where(*matching, k.revoked_at.is_(None)).values(**revoked))
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
        query = (
            select(
                tenants.c.id, tenants.c.name, api_keys.c.scopes, api_keys.c.name.label("key_name"), api_keys.c.senders
            )
            .select_from(api_keys.join(tenants, tenants.c.id == api_keys.c.tenant_id))
            .where(api_keys.c.digest == digest, api_keys.c.revoked_at.is_(None))
        )
        async with self._database.read(within=PROMPT_SECONDS) as tx:
            rows = await tx.execute(query)
        if not rows:
            self._cached.pop(digest, None)
            raise Unauthorized
        row = rows[0]
        return Caller(
            row.id,
            row.name,
            _split_scopes(row.scopes),
            key_name=row.key_name,
            senders=_split_senders(row.senders),
        )

    def _cache(self, digest: str, caller: Caller, until: Instant) -> None:
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[digest] = (caller, until)


async def _find_owner(tx: Transaction, tenant_id: int, login: str) -> str:
    """Return the name of a user who works for the tenant, or raise."""
    u, name = users.c, login.strip().lower()
    works_here = or_(u.tenant_id.is_(None), u.tenant_id == tenant_id)
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
