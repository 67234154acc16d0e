"""API keys: each opens one tenant, for what its scopes say. Shown once, stored as a digest, revoked within seconds."""

import hashlib
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import insert, select, update

from mailwright.access.roles import ALL_SCOPES, Forbidden, Scope
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, Unauthorized
from mailwright.storage.database import Database
from mailwright.storage.tables import api_keys, tenants

PREFIX = "mw_"
_RANDOM_BYTES = 32

# A revoked key still opens the door for so long, in each process; looking it up every time costs more than the rest.
CACHE_TIME: Instant = 5 * SECOND
# Far more than the keys of one installation: whoever sends made-up keys is never remembered at all.
_MOST_REMEMBERED = 10_000

_BEARER = re.compile(r"bearer +(\S{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key it is. Every query of a request is limited to this tenant."""

    tenant_id: int
    tenant: str
    scopes: frozenset[Scope] = ALL_SCOPES
    actor: str | None = None  # of a person who is signed in; a key is known by its tenant alone

    def require(self, scope: Scope) -> None:
        if scope not in self.scopes:
            raise Forbidden(f"This key may {_listed(self.scopes)}, and not {scope}.")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it may be shown: the last four characters tell it from others."""

    id: int
    tenant: str
    name: str
    hint: str
    scopes: frozenset[Scope]
    created_at: Instant
    revoked_at: Instant | None


class ApiKeys:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._remembered: dict[str, tuple[Caller, Instant]] = {}

    async def create(self, tenant_id: int, name: str = "", scopes: frozenset[Scope] = ALL_SCOPES) -> str:
        """The key itself: it is shown now and can never be read again."""
        if len(name) > 100 or not name.isprintable():
            raise InvalidInput("a key's name has at most 100 printable characters", field="name")
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        values = {
            "tenant_id": tenant_id,
            "name": name,
            "hint": key[-4:],
            "digest": _digest(key),
            "scopes": _stored(scopes),
            "created_at": self._clock.now(),
        }
        async with self._database.write() as tx:
            await tx.execute(insert(api_keys).values(**values))
        return key

    async def list_all(self, tenant_id: int) -> list[ApiKey]:
        k = api_keys.c
        query = (
            select(k.id, tenants.c.name.label("tenant"), k.name, k.hint, k.scopes, k.created_at, k.revoked_at)
            .select_from(api_keys.join(tenants, tenants.c.id == k.tenant_id))
            .where(k.tenant_id == tenant_id)
            .order_by(k.id)
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return [ApiKey(**{**row._mapping, "scopes": _scopes(row.scopes)}) for row in rows]

    async def revoke(self, tenant_id: int, key_id: int) -> None:
        """Revoking again is no error and keeps the first moment."""
        k = api_keys.c
        mine = (k.id == key_id, k.tenant_id == tenant_id)
        async with self._database.write() as tx:
            if not await tx.execute(select(k.id).where(*mine)):
                raise NotFound("There is no key with this id.")
            await tx.execute(update(api_keys).where(*mine, k.revoked_at.is_(None)).values(revoked_at=self._clock.now()))
        self._remembered.clear()

    async def authenticate(self, authorization: str | None) -> Caller:
        """Who is calling, from the `Authorization` header. One error for every reason, so that it tells nothing."""
        bearer = _BEARER.fullmatch(authorization or "")
        if bearer is None or not bearer[1].startswith(PREFIX):
            raise Unauthorized
        digest, now = _digest(bearer[1]), self._clock.now()
        caller, until = self._remembered.get(digest, (None, 0))
        if caller is None or now >= until:
            caller = await self._look_up(digest)
            self._remember(digest, caller, now + CACHE_TIME)
        return caller

    async def _look_up(self, digest: str) -> Caller:
        query = (
            select(tenants.c.id, tenants.c.name, api_keys.c.scopes)
            .select_from(api_keys.join(tenants, tenants.c.id == api_keys.c.tenant_id))
            .where(api_keys.c.digest == digest, api_keys.c.revoked_at.is_(None))
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        if not rows:
            self._remembered.pop(digest, None)
            raise Unauthorized
        return Caller(rows[0].id, rows[0].name, _scopes(rows[0].scopes))

    def _remember(self, digest: str, caller: Caller, until: Instant) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = (caller, until)


def _stored(scopes: frozenset[Scope]) -> str:
    return " ".join(scope for scope in Scope if scope in scopes)


def _scopes(stored: str) -> frozenset[Scope]:
    return frozenset(Scope(word) for word in stored.split())


def _listed(scopes: frozenset[Scope]) -> str:
    return " and ".join(scope for scope in Scope if scope in scopes) or "do nothing"


def _digest(key: str) -> str:
    """A plain hash is enough for a key of 256 random bits, which nobody can guess; passwords need a slow one.

    Looking up by digest is also what keeps the comparison from telling anything by its time: to steer the digest, one
    would have to know the key.
    """
    return hashlib.sha256(key.encode()).hexdigest()
