"""Users: people who sign in, each with a role. Whoever loses their account or its password is out at once."""

import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.access import failed_sign_ins, second_factor
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.passwords import Passwords, check_password
from mailwright.access.roles import Role
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import recovery_codes, sessions, tenants, users

# The administrator whom ADMIN_PASSWORD makes.
FIRST_LOGIN: Final = "admin"
_LOGIN: Final = re.compile(r"[a-z0-9][a-z0-9._+@-]{0,99}")


class UserExists(InvalidInput):
    """There is a user of this name already."""

    code = "USER_EXISTS"


@dataclass(frozen=True, slots=True)
class User:
    """A user as they may be shown; what they prove themselves with stays in the table."""

    id: int
    login: str
    role: Role
    tenant_id: int | None  # None: of the installation, and so of every tenant
    tenant: str | None
    has_second_factor: bool
    created_at: Instant
    seen_at: Instant | None
    disabled_at: Instant | None
    password_changed_at: Instant


class Users:
    def __init__(
        self, database: Database, clock: Clock, counter: FailedSignIns, first_password: str | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._failed_sign_ins = counter
        self._first_password = first_password
        self.passwords = Passwords()

    # Who there is.

    async def list_all(self) -> list[User]:
        async with self._database.read() as tx:
            return [_user(row) for row in await tx.execute(_shown().order_by(users.c.login))]

    async def find(self, login: str) -> User:
        async with self._database.read() as tx:
            rows = await tx.execute(_shown().where(users.c.login == _normal(login)))
        if not rows:
            raise NotFound(f"there is no user {login[:80]}", field="login")
        return _user(rows[0])

    async def has_any(self) -> bool:
        async with self._database.read() as tx:
            return bool(await tx.execute(select(users.c.id).limit(1)))

    # Coming and going.

    @staticmethod
    def check(login: str, password: str) -> str:
        """The name in the form in which it is kept, if both can be used at all."""
        name = _checked(login)
        check_password(password, name)
        return name

    async def create(self, login: str, password: str, role: Role, *, tenant_id: int | None = None, actor: str) -> User:
        login = self.check(login, password)
        hashed = await self.passwords.hash(password)
        try:
            async with self._database.write() as tx:
                await self._add(tx, login, hashed, role, tenant_id=tenant_id, actor=actor)
        except IntegrityError as error:
            raise UserExists(f"there is a user {login} already", field="login") from error
        return await self.find(login)

    async def change_password(self, login: str, password: str, *, actor: str, keeps: str | None = None) -> None:
        """Every session ends, but for the one whose digest is `keeps`: that of the person at the keys."""
        user = await self.find(login)
        check_password(password, user.login)
        hashed = await self.passwords.hash(password)
        now = self._clock.now()
        async with self._database.write() as tx:
            values = {"password_hash": hashed, "password_changed_at": now}
            await tx.execute(update(users).where(users.c.id == user.id).values(**values))
            await _end_sessions(tx, user.id, keeps)
            await record(tx, now, actor=actor, action="user_password", subject=user.login, tenant_id=None)

    async def change_role(self, login: str, role: Role, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            if role is not Role.ADMIN:
                await self._require_another_admin(tx, user)
            await tx.execute(update(users).where(users.c.id == user.id).values(role=role))
            detail = {"from": user.role, "to": role}
            await record(tx, now, actor=actor, action="user_role", subject=user.login, tenant_id=None, detail=detail)

    async def disable(self, login: str, *, actor: str) -> None:
        """Out at once; what they did keeps their name."""
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            await self._require_another_admin(tx, user)
            still = (users.c.id == user.id, users.c.disabled_at.is_(None))
            await tx.execute(update(users).where(*still).values(disabled_at=now))
            await _end_sessions(tx, user.id)
            await record(tx, now, actor=actor, action="user_disable", subject=user.login, tenant_id=None)

    async def enable(self, login: str, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            await tx.execute(update(users).where(users.c.id == user.id).values(disabled_at=None))
            await record(tx, now, actor=actor, action="user_enable", subject=user.login, tenant_id=None)

    # Proving who one is.

    async def sign_in(self, login: str, password: str, host: str | None) -> User | None:
        """None for every reason, so that it tells nothing; a wrong guess is counted for the account and the address."""
        name = _normal(login)

        async def verify() -> User | None:
            await self._make_first(name, password)
            async with self._database.read() as tx:
                rows = await tx.execute(_shown(users.c.password_hash).where(users.c.login == name))
            is_right = await self.passwords.is_right(password, rows[0].password_hash if rows else None)
            return _user(rows[0]) if is_right and rows[0].disabled_at is None else None

        return await self._failed_sign_ins.check(
            [failed_sign_ins.account_key(name), failed_sign_ins.address_key(host)], verify
        )

    async def confirm_password(self, user: User, password: str, host: str | None) -> bool:
        """Asked again before something grave, of somebody who is in already."""
        return await self.sign_in(user.login, password, host) is not None

    async def verify_code(self, user: User, code: str, host: str | None) -> bool:
        """A code of the second factor, or a recovery code, which is used up by that."""

        async def verify() -> bool | None:
            async with self._database.write() as tx:
                is_right = await self._takes_code(tx, user.id, code) or await self._takes_recovery_code(tx, user, code)
            return is_right or None

        whom = [failed_sign_ins.account_key(f"{user.login} (code)"), failed_sign_ins.address_key(host)]
        return await self._failed_sign_ins.check(whom, verify) is True

    # The second factor.

    async def begin_second_factor(self, user: User) -> str:
        """A secret that holds once a code made with it was shown; until then nothing changes."""
        if user.has_second_factor:
            raise NotPossibleNow("A second factor is set up already; take it away first.")
        secret = second_factor.new_secret()
        async with self._database.write() as tx:
            mine = (users.c.id == user.id, users.c.totp_enabled_at.is_(None))
            await tx.execute(update(users).where(*mine).values(totp_secret=secret, totp_step=0))
        return secret

    async def pending_secret(self, user: User) -> str | None:
        query = select(users.c.totp_secret).where(users.c.id == user.id, users.c.totp_enabled_at.is_(None))
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return rows[0].totp_secret if rows else None

    async def confirm_second_factor(self, user: User, code: str, *, keeps: str | None = None) -> list[str] | None:
        """The recovery codes, shown this once; None if the code was wrong. Sessions that came in without it end."""
        now, codes = self._clock.now(), second_factor.new_recovery_codes()
        async with self._database.write() as tx:
            rows = await tx.execute(
                select(users.c.totp_secret).where(users.c.id == user.id, users.c.totp_enabled_at.is_(None))
            )
            if not rows or rows[0].totp_secret is None:
                raise NotPossibleNow("There is no second factor that waits to be confirmed.")
            step = second_factor.matching_step(rows[0].totp_secret, code, now, 0)
            if step is None:
                return None
            await tx.execute(update(users).where(users.c.id == user.id).values(totp_enabled_at=now, totp_step=step))
            await self._replace_recovery_codes(tx, user.id, codes)
            await _end_sessions(tx, user.id, keeps)
            await record(tx, now, actor=user.login, action="user_second_factor", subject=user.login, tenant_id=None)
        return codes

    async def remove_second_factor(self, login: str, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            none = {"totp_secret": None, "totp_enabled_at": None, "totp_step": 0}
            await tx.execute(update(users).where(users.c.id == user.id).values(**none))
            await self._replace_recovery_codes(tx, user.id, [])
            await record(tx, now, actor=actor, action="user_second_factor_gone", subject=user.login, tenant_id=None)

    async def _takes_code(self, tx: Transaction, user_id: int, code: str) -> bool:
        query = select(users.c.totp_secret, users.c.totp_step).where(
            users.c.id == user_id, users.c.totp_enabled_at.is_not(None)
        )
        rows = await tx.execute(query.with_for_update())
        if not rows:
            return False
        step = second_factor.matching_step(rows[0].totp_secret, code, self._clock.now(), rows[0].totp_step)
        if step is None:
            return False
        await tx.execute(update(users).where(users.c.id == user_id).values(totp_step=step))
        return True

    async def _takes_recovery_code(self, tx: Transaction, user: User, code: str) -> bool:
        mine = recovery_codes.c.user_key == user.id
        digest = second_factor.recovery_digest(code)
        taken = await tx.execute(
            delete(recovery_codes).where(mine, recovery_codes.c.digest == digest).returning(recovery_codes.c.digest)
        )
        if not taken:
            return False
        now = self._clock.now()
        [left] = await tx.execute(select(func.count()).select_from(recovery_codes).where(mine))
        await record(
            tx,
            now,
            actor=user.login,
            action="user_recovery_code",
            subject=user.login,
            tenant_id=None,
            detail={"left": left[0]},
        )
        return True

    async def _replace_recovery_codes(self, tx: Transaction, user_id: int, codes: list[str]) -> None:
        await tx.execute(delete(recovery_codes).where(recovery_codes.c.user_key == user_id))
        for code in codes:
            values = {"user_key": user_id, "digest": second_factor.recovery_digest(code)}
            await tx.execute(insert(recovery_codes).values(**values))

    async def _make_first(self, login: str, password: str) -> None:
        """ADMIN_PASSWORD is that of the first administrator, until there is one; from then on people's own count."""
        first = self._first_password
        if first is None or login != FIRST_LOGIN or await self.has_any():
            return
        if not secrets.compare_digest(password.encode(), first.encode()):
            return
        hashed = await self.passwords.hash(password)
        try:
            async with self._database.write() as tx:
                await self._add(tx, login, hashed, Role.ADMIN, tenant_id=None, actor="ADMIN_PASSWORD")
        except IntegrityError:
            pass  # another process made it at the same moment

    async def _add(
        self, tx: Transaction, login: str, hashed: str, role: Role, *, tenant_id: int | None, actor: str
    ) -> None:
        now = self._clock.now()
        values = {"login": login, "role": role, "tenant_id": tenant_id, "password_hash": hashed}
        moments = {"password_changed_at": now, "created_at": now}
        await tx.execute(insert(users).values(**values, **moments, totp_step=0))
        await record(tx, now, actor=actor, action="user_create", subject=login, tenant_id=None, detail={"role": role})

    async def _require_another_admin(self, tx: Transaction, user: User) -> None:
        """An installation that nobody administers could be opened from the console only.

        All of them are held: of two who shut each other out at once, the second finds itself the last.
        """
        u = users.c
        admins = (u.role == Role.ADMIN, u.disabled_at.is_(None), u.tenant_id.is_(None))
        there = [row.id for row in await tx.execute(select(u.id).where(*admins).order_by(u.id).with_for_update())]
        if there == [user.id]:
            raise NotPossibleNow(f"{user.login} is the last administrator. Make another one first.")


async def _end_sessions(tx: Transaction, user_id: int, keeps: str | None = None) -> None:
    await tx.execute(delete(sessions).where(sessions.c.user_key == user_id, sessions.c.digest != (keeps or "")))


def _shown(*more: Any) -> Any:
    u = users.c
    return select(
        u.id,
        u.login,
        u.role,
        u.tenant_id,
        tenants.c.name.label("tenant"),
        u.totp_enabled_at,
        u.created_at,
        u.seen_at,
        u.disabled_at,
        u.password_changed_at,
        *more,
    ).select_from(users.outerjoin(tenants, tenants.c.id == u.tenant_id))


def _user(row: Any) -> User:
    return User(
        row.id,
        row.login,
        Role(row.role),
        row.tenant_id,
        row.tenant,
        row.totp_enabled_at is not None,
        row.created_at,
        row.seen_at,
        row.disabled_at,
        row.password_changed_at,
    )


def _normal(login: str) -> str:
    return login.strip().lower()[:100]


def _checked(login: str) -> str:
    name = login.strip().lower()
    if not _LOGIN.fullmatch(name):
        message = "a name to sign in with has 1 to 100 of a-z, 0-9 and . _ + @ -, as in ada or ada@example.com"
        raise InvalidInput(message, field="login")
    return name
