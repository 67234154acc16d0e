"""Dashboard sessions: a random token in a cookie, its digest in the database. Deleting the row ends the session."""

import base64
import hashlib
import hmac
import secrets
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import ColumnElement, case, delete, insert, select, update

from mailwright.access.roles import Role
from mailwright.access.sign_in_log import SignInMethod, record_sign_in
from mailwright.access.users import User, has_passkey
from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.audit_log import record
from mailwright.storage.database import PROMPT_SECONDS, Database
from mailwright.storage.tables import sessions, tenants, users

# A session ends after this time without a request, and after a week in any case.
IDLE_TIMEOUT: Final[Instant] = 12 * HOUR
MAX_SESSION_AGE: Final[Instant] = 7 * DAY
# How long the one-time sign-in link that a command prints stays valid.
LINK_SESSION_AGE: Final[Instant] = HOUR
# The address of a sign-in link that nobody has used yet.
LINK_ADDRESS: Final = "console"
# Time between entering the password and entering the code.
CODE_TIMEOUT: Final[Instant] = 10 * MINUTE
# Minimum time between two updates of `seen_at`, because a write for every request would cost too much.
_SEEN_INTERVAL: Final[Instant] = MINUTE


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in user, and the tenant whose data they see."""

    id: int
    digest: str
    user: User
    tenant_id: int
    tenant: str
    timezone: str | None  # the tenant's time zone; None: use the installation's
    awaits_code: bool
    created_at: Instant
    seen_at: Instant
    lacks_second_factor: bool = False  # The tenant requires a second factor, and the user has none.


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session as its user sees it in the list of their sessions."""

    id: int
    address: str
    agent: str
    created_at: Instant
    seen_at: Instant
    is_this_one: bool


class Sessions:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def open(
        self,
        user: User,
        *,
        address: str,
        agent: str,
        method: SignInMethod = SignInMethod.PASSWORD,
        proved_two_factors: bool = False,
    ) -> str:
        """Return the token for the cookie. If the user has a second factor, the session only allows entering the code,
        unless the sign-in itself proved two factors.

        Raises if the password or the second factor has changed since the user was authenticated.
        """
        token = secrets.token_urlsafe(32)
        lasts = CODE_TIMEOUT if user.has_second_factor and not proved_two_factors else MAX_SESSION_AGE
        await self._insert(
            user,
            token_digest(token),
            lasts,
            address=address,
            agent=agent,
            method=method,
            proved_two_factors=proved_two_factors,
        )
        return token

    async def open_link(self, user: User, *, agent: str) -> str:
        """Return the token of a new sign-in link, which `redeem_link` exchanges once for a session token."""
        token = secrets.token_urlsafe(32)
        await self._insert(user, _link_digest(token), LINK_SESSION_AGE, address=LINK_ADDRESS, agent=agent)
        return token

    async def find_link(self, token: str | None) -> str | None:
        """Return the login of the user whom a sign-in link signs in, or None if the link is no longer valid."""
        if not token or len(token) > 100:
            return None
        query = (
            select(users.c.login)
            .select_from(sessions.join(users, users.c.id == sessions.c.user_key))
            .where(*self._is_open_link(token), users.c.disabled_at.is_(None))
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return rows[0].login if rows else None

    async def redeem_link(self, link_token: str, *, address: str, agent: str) -> tuple[str, bool] | None:
        """Exchange the token of a sign-in link for a session token, or return None if the link is no longer valid.

        Also return whether the session still awaits the code of the second factor.
        """
        if await self.find_link(link_token) is None:
            return None
        token, now = secrets.token_urlsafe(32), self._clock.now()
        values = {"digest": token_digest(token), "address": address[:100], "agent": agent[:300]}
        times = {"created_at": now, "seen_at": now}
        ends_at = case((sessions.c.awaits_code, now + CODE_TIMEOUT), else_=now + MAX_SESSION_AGE)
        async with self._database.write() as tx:
            rows = await tx.execute(
                update(sessions)
                .where(*self._is_open_link(link_token))
                .values(**values, **times, ends_at=ends_at)
                .returning(sessions.c.awaits_code, sessions.c.user_key)
            )
            if rows and not rows[0].awaits_code:
                await record_sign_in(tx, now, rows[0].user_key, SignInMethod.LINK, address)
        return (token, bool(rows[0].awaits_code)) if rows else None

    def _is_open_link(self, token: str) -> tuple[ColumnElement[bool], ...]:
        return sessions.c.digest == _link_digest(token), sessions.c.ends_at > self._clock.now()

    async def _insert(
        self,
        user: User,
        digest: str,
        lasts: Instant,
        *,
        address: str,
        agent: str,
        method: SignInMethod | None = None,
        proved_two_factors: bool = False,
    ) -> None:
        """Store a session, or a link that has no `method` yet. A session that awaits a code is no sign-in yet."""
        now = self._clock.now()
        values = {
            "digest": digest,
            "user_key": user.id,
            "awaits_code": user.has_second_factor and not proved_two_factors,
            "proved_two_factors": proved_two_factors,
            "created_at": now,
            "seen_at": now,
            "ends_at": now + lasts,
            "address": address[:100],
            "agent": agent[:300],
        }
        async with self._database.write() as tx:
            proof = select(users.c.password_changed_at, users.c.totp_enabled_at, has_passkey())
            [current] = await tx.execute(proof.where(users.c.id == user.id).with_for_update())
            if (current.password_changed_at, current.totp_enabled_at is not None, bool(current.has_passkey)) != (
                user.password_changed_at,
                user.has_totp,
                user.has_passkey,
            ):
                raise NotPossibleNow("Your password or second factor was changed in the meantime. Sign in again.")
            tenant_id = user.tenant_id or (await tx.execute(select(tenants.c.id).order_by(tenants.c.id).limit(1)))[0].id
            await tx.execute(insert(sessions).values(**values, tenant_id=tenant_id))
            await tx.execute(update(users).where(users.c.id == user.id).values(seen_at=now))
            await tx.execute(delete(sessions).where(sessions.c.ends_at < now))
            if method is not None and not values["awaits_code"]:
                await record_sign_in(tx, now, user.id, method, address)

    async def find(self, token: str | None, *, is_seen: bool = True) -> Session | None:
        """Return the session of a token, or None if it is unknown, expired or revoked.

        With `is_seen=False`, the lookup does not extend the session. Pages that only listen for updates use it.
        """
        if not token or len(token) > 100:
            return None
        now = self._clock.now()
        s, u = sessions.c, users.c
        query = (
            select(
                sessions,
                tenants.c.name.label("tenant"),
                tenants.c.timezone,
                tenants.c.requires_second_factor,
                u.login,
                u.role,
                u.tenant_id.label("home_id"),
                u.totp_enabled_at,
                u.created_at.label("user_created_at"),
                u.seen_at.label("user_seen_at"),
                u.password_changed_at,
                u.email,
                u.password_hash.is_not(None).label("has_password"),
                has_passkey(),
                u.language,
            )
            .select_from(sessions.join(users, u.id == s.user_key).join(tenants, tenants.c.id == s.tenant_id))
            .where(
                s.digest == token_digest(token),
                s.ends_at > now,
                s.seen_at > now - IDLE_TIMEOUT,
                u.disabled_at.is_(None),
            )
        )
        async with self._database.read(within=PROMPT_SECONDS) as tx:
            rows = await tx.execute(query)
        if not rows:
            return None
        [row] = rows
        if is_seen and now - row.seen_at >= _SEEN_INTERVAL:
            with suppress(NotDurable):  # Pages stay readable, and say why nothing can be stored.
                await self._record_seen(row.id, row.user_key, now)
        return _session(row)

    async def renew(self, session: Session, *, address: str, agent: str, method: SignInMethod) -> str:
        """Replace the token after the user has entered the code, so that the old token is no longer valid."""
        token, now = secrets.token_urlsafe(32), self._clock.now()
        values = {"digest": token_digest(token), "awaits_code": False, "seen_at": now, "ends_at": now + MAX_SESSION_AGE}
        async with self._database.write() as tx:
            matching = sessions.c.id == session.id
            await tx.execute(
                update(sessions)
                .where(matching)
                .values(**values, address=address[:100], agent=agent[:300], created_at=now)
            )
            await record_sign_in(tx, now, session.user.id, method, address)
        return token

    async def switch_tenant(self, session: Session, tenant: str) -> None:
        """Show another tenant's data from now on. Only users of the whole installation can switch."""
        async with self._database.write() as tx:
            rows = await tx.execute(select(tenants.c.id).where(tenants.c.name == tenant))
            if not rows or session.user.tenant_id not in (None, rows[0].id):
                raise NotFound("There is no tenant {tenant}.", field="tenant", tenant=tenant[:80])
            await tx.execute(update(sessions).where(sessions.c.id == session.id).values(tenant_id=rows[0].id))

    async def list_for_user(self, user: User, this_one: Session | None = None) -> list[SessionSummary]:
        """Return the open sessions of a user, the one that was used last first."""
        s, now = sessions.c, self._clock.now()
        is_open = (s.ends_at > now, s.seen_at > now - IDLE_TIMEOUT)
        matching = (s.user_key == user.id, *is_open, s.awaits_code.is_(False), s.address != LINK_ADDRESS)
        async with self._database.read() as tx:
            rows = await tx.execute(select(sessions).where(*matching).order_by(s.seen_at.desc()))
        return [
            SessionSummary(
                row.id,
                row.address,
                row.agent,
                row.created_at,
                row.seen_at,
                this_one is not None and row.id == this_one.id,
            )
            for row in rows
        ]

    async def end(self, session: Session, session_id: int | None = None) -> None:
        """End this session, or another one of the same user."""
        target = session.id if session_id is None else session_id
        async with self._database.write() as tx:
            await tx.execute(delete(sessions).where(sessions.c.id == target, sessions.c.user_key == session.user.id))

    async def end_others(self, session: Session) -> int:
        """End all other sessions of the same user, and return their number."""
        others = (sessions.c.user_key == session.user.id, sessions.c.id != session.id)
        async with self._database.write() as tx:
            return len(await tx.execute(delete(sessions).where(*others).returning(sessions.c.id)))

    async def end_all(self, user: User, *, actor: str) -> int:
        """Sign a user out everywhere, and return the number of their sessions."""
        async with self._database.write() as tx:
            ended = await tx.execute(delete(sessions).where(sessions.c.user_key == user.id).returning(sessions.c.id))
            now, detail = self._clock.now(), {"sessions": len(ended)}
            await record(
                tx, now, actor=actor, action="user_sign_out", subject=user.login, tenant_id=None, detail=detail
            )
        return len(ended)

    async def _record_seen(self, session_id: int, user_id: int, now: Instant) -> None:
        async with self._database.write() as tx:
            # Update the user first, in the same order as `Users.disable`, so that the two cannot deadlock.
            await tx.execute(update(users).where(users.c.id == user_id).values(seen_at=now))
            await tx.execute(update(sessions).where(sessions.c.id == session_id).values(seen_at=now))


def _session(row: Any) -> Session:
    user = User(
        row.user_key,
        row.login,
        Role(row.role),
        row.home_id,
        row.tenant if row.home_id is not None else None,
        row.totp_enabled_at is not None,
        row.user_created_at,
        row.user_seen_at,
        None,
        row.password_changed_at,
        row.email,
        bool(row.has_password),
        bool(row.has_passkey),
        row.language,
    )
    return Session(
        row.id,
        row.digest,
        user,
        row.tenant_id,
        row.tenant,
        row.timezone,
        row.awaits_code,
        row.created_at,
        row.seen_at,
        row.requires_second_factor and not row.proved_two_factors and not user.has_second_factor,
    )


def token_digest(token: str) -> str:
    """Return the digest of a token. 256 random bits need no slow hash, and timing reveals nothing about a digest."""
    return hashlib.sha256(token.encode()).hexdigest()


def _link_digest(token: str) -> str:
    return token_digest(f"link {token}")


def form_token(token: str) -> str:
    """Return the CSRF token that every form of this session carries."""
    digest = hmac.new(token.encode(), b"mailwright form", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_form_token(shown: str, token: str) -> bool:
    return secrets.compare_digest(shown.encode(), form_token(token).encode())
