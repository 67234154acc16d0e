"""Users of the dashboard, each with a role. Disabling a user or changing the password ends their sessions at once."""

import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.access import second_factor
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.passwords import Passwords, check_password
from mailwright.access.roles import Role
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.secret_box import SecretBox
from mailwright.storage.tables import recovery_codes, sessions, tenants, users

# The administrator that ADMIN_PASSWORD creates.
FIRST_LOGIN: Final = "admin"
_LOGIN: Final = re.compile(r"[a-z0-9][a-z0-9._+@-]{0,99}")


class UserExists(InvalidInput):
    """A user with this name already exists."""

    code = "USER_EXISTS"


@dataclass(frozen=True, slots=True)
class User:
    """A user without credentials, safe to show."""

    id: int
    login: str
    role: Role
    tenant_id: int | None  # None: a user of the whole installation, with access to every tenant
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

    async def list_all(self) -> list[User]:
        async with self._database.read() as tx:
            return [_user(row) for row in await tx.execute(_select_user().order_by(users.c.login))]

    async def find(self, login: str) -> User:
        async with self._database.read() as tx:
            rows = await tx.execute(_select_user().where(users.c.login == _normalize_login(login)))
        if not rows:
            raise NotFound(f"There is no user {login[:80]}.", field="login")
        return _user(rows[0])

    async def has_any(self) -> bool:
        async with self._database.read() as tx:
            return bool(await tx.execute(select(users.c.id).limit(1)))

    @staticmethod
    def check(login: str, password: str) -> str:
        """Return the normalized login, or raise if the login or the password is not acceptable."""
        name = _check_login(login)
        check_password(password, name)
        return name

    async def create(self, login: str, password: str, role: Role, *, tenant_id: int | None = None, actor: str) -> User:
        login = self.check(login, password)
        hashed = await self.passwords.hash(password)
        try:
            async with self._database.write() as tx:
                await _insert_user(tx, self._clock.now(), login, hashed, role, tenant_id=tenant_id, actor=actor)
        except IntegrityError as error:
            raise UserExists(f"A user {login} already exists.", field="login") from error
        return await self.find(login)

    async def change_password(self, login: str, password: str, *, actor: str, keep_session: str | None = None) -> None:
        """Change the password and end every session except the one with the digest `keep_session`."""
        user = await self.find(login)
        check_password(password, user.login)
        hashed = await self.passwords.hash(password)
        now = self._clock.now()
        async with self._database.write() as tx:
            values = {"password_hash": hashed, "password_changed_at": now}
            await tx.execute(update(users).where(users.c.id == user.id).values(**values))
            await _end_sessions(tx, user.id, keep_session)
            await record(tx, now, actor=actor, action="user_password", subject=user.login, tenant_id=None)

    async def change_role(self, login: str, role: Role, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            if role is not Role.ADMIN:
                await _require_another_admin(tx, user)
            await tx.execute(update(users).where(users.c.id == user.id).values(role=role))
            detail = {"from": user.role, "to": role}
            await record(tx, now, actor=actor, action="user_role", subject=user.login, tenant_id=None, detail=detail)

    async def disable(self, login: str, *, actor: str) -> None:
        """Disable a user and end their sessions. Their entries in the audit log remain."""
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            await _require_another_admin(tx, user)
            still = (users.c.id == user.id, users.c.disabled_at.is_(None))
            await tx.execute(update(users).where(*still).values(disabled_at=now))
            await _end_sessions(tx, user.id)
            await record(tx, now, actor=actor, action="user_disable", subject=user.login, tenant_id=None)

    async def enable(self, login: str, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            await tx.execute(update(users).where(users.c.id == user.id).values(disabled_at=None))
            await record(tx, now, actor=actor, action="user_enable", subject=user.login, tenant_id=None)

    async def sign_in(self, login: str, password: str, host: str | None) -> User | None:
        """Return the user, or None for any failure. A failure counts for both the account and the network address."""
        name = _normalize_login(login)

        async def verify() -> User | None:
            await self._create_first_admin(name, password)
            async with self._database.read() as tx:
                rows = await tx.execute(_select_user(users.c.password_hash).where(users.c.login == name))
            is_correct = await self.passwords.is_correct(password, rows[0].password_hash if rows else None)
            return _user(rows[0]) if is_correct and rows[0].disabled_at is None else None

        return await self._failed_sign_ins.check(name, host, verify)

    async def confirm_password(self, user: User, password: str, host: str | None) -> bool:
        """Verify the password of a signed-in user again, before a sensitive change."""
        return await self.sign_in(user.login, password, host) is not None

    async def verify_code(self, user: User, code: str, host: str | None) -> bool:
        """Verify a second-factor code, or consume a recovery code."""

        async def verify() -> bool | None:
            now = self._clock.now()
            async with self._database.write() as tx:
                is_correct = await _consume_recovery_code(tx, user, code, now) or await _accepts_code(
                    tx, user.id, code, now, self._database.secret_box
                )
            return is_correct or None

        return await self._failed_sign_ins.check(f"{user.login} (code)", host, verify) is True

    async def begin_second_factor(self, user: User) -> str:
        """Return a new second-factor secret. It takes effect when the user confirms it with a code."""
        if user.has_second_factor:
            raise NotPossibleNow("A second factor is already set up. Remove it first.")
        secret = second_factor.new_secret()
        async with self._database.write() as tx:
            matching = (users.c.id == user.id, users.c.totp_enabled_at.is_(None))
            encrypted = await self._database.secret_box.encrypt(tx, secret)
            await tx.execute(update(users).where(*matching).values(totp_secret=encrypted, totp_step=0))
        return secret

    async def pending_secret(self, user: User) -> str | None:
        query = select(users.c.totp_secret).where(users.c.id == user.id, users.c.totp_enabled_at.is_(None))
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        stored = rows[0].totp_secret if rows else None
        return self._database.secret_box.decrypt(stored) if stored is not None else None

    async def confirm_second_factor(
        self, user: User, code: str, *, keep_session: str | None = None
    ) -> list[str] | None:
        """Return the recovery codes, shown only once, or None if the code is wrong. End the user's other sessions."""
        now, codes = self._clock.now(), second_factor.new_recovery_codes()
        async with self._database.write() as tx:
            rows = await tx.execute(
                select(users.c.totp_secret).where(users.c.id == user.id, users.c.totp_enabled_at.is_(None))
            )
            if not rows or rows[0].totp_secret is None:
                raise NotPossibleNow("There is no second factor to confirm. Set it up again.")
            secret = self._database.secret_box.decrypt(rows[0].totp_secret)
            step = second_factor.matching_step(secret, code, now, 0)
            if step is None:
                return None
            await tx.execute(update(users).where(users.c.id == user.id).values(totp_enabled_at=now, totp_step=step))
            await _replace_recovery_codes(tx, user.id, codes)
            await _end_sessions(tx, user.id, keep_session)
            await record(tx, now, actor=user.login, action="user_second_factor", subject=user.login, tenant_id=None)
        return codes

    async def remove_second_factor(self, login: str, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            none = {"totp_secret": None, "totp_enabled_at": None, "totp_step": 0}
            await tx.execute(update(users).where(users.c.id == user.id).values(**none))
            await _replace_recovery_codes(tx, user.id, [])
            await record(tx, now, actor=actor, action="user_second_factor_gone", subject=user.login, tenant_id=None)

    async def _create_first_admin(self, login: str, password: str) -> None:
        """Create the first administrator at the first sign-in with ADMIN_PASSWORD. Once a user exists, do nothing."""
        first = self._first_password
        if first is None or login != FIRST_LOGIN or await self.has_any():
            return
        if not secrets.compare_digest(password.encode(), first.encode()):
            return
        hashed = await self.passwords.hash(password)
        try:
            async with self._database.write() as tx:
                await _insert_user(
                    tx, self._clock.now(), login, hashed, Role.ADMIN, tenant_id=None, actor="ADMIN_PASSWORD"
                )
        except IntegrityError:
            pass  # Another process created the user at the same time.


async def _accepts_code(tx: Transaction, user_id: int, code: str, now: Instant, secret_box: SecretBox) -> bool:
    query = select(users.c.totp_secret, users.c.totp_step).where(
        users.c.id == user_id, users.c.totp_enabled_at.is_not(None)
    )
    rows = await tx.execute(query.with_for_update())
    if not rows:
        return False
    secret = secret_box.decrypt(rows[0].totp_secret)
    step = second_factor.matching_step(secret, code, now, rows[0].totp_step)
    if step is None:
        return False
    await tx.execute(update(users).where(users.c.id == user_id).values(totp_step=step))
    return True


async def _consume_recovery_code(tx: Transaction, user: User, code: str, now: Instant) -> bool:
    matching = recovery_codes.c.user_key == user.id
    digest = second_factor.recovery_digest(code)
    taken = await tx.execute(
        delete(recovery_codes).where(matching, recovery_codes.c.digest == digest).returning(recovery_codes.c.digest)
    )
    if not taken:
        return False
    [left] = await tx.execute(select(func.count()).select_from(recovery_codes).where(matching))
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


async def _replace_recovery_codes(tx: Transaction, user_id: int, codes: list[str]) -> None:
    await tx.execute(delete(recovery_codes).where(recovery_codes.c.user_key == user_id))
    for code in codes:
        values = {"user_key": user_id, "digest": second_factor.recovery_digest(code)}
        await tx.execute(insert(recovery_codes).values(**values))


async def _insert_user(
    tx: Transaction, now: Instant, login: str, hashed: str, role: Role, *, tenant_id: int | None, actor: str
) -> None:
    values = {"login": login, "role": role, "tenant_id": tenant_id, "password_hash": hashed}
    times = {"password_changed_at": now, "created_at": now}
    await tx.execute(insert(users).values(**values, **times, totp_step=0))
    await record(tx, now, actor=actor, action="user_create", subject=login, tenant_id=None, detail={"role": role})


async def _require_another_admin(tx: Transaction, user: User) -> None:
    """Raise if the user is the last administrator, because only the console could then manage the installation.

    Lock the rows of all administrators, so that two who disable each other at the same time cannot both succeed.
    """
    u = users.c
    admins = (u.role == Role.ADMIN, u.disabled_at.is_(None), u.tenant_id.is_(None))
    admin_ids = [row.id for row in await tx.execute(select(u.id).where(*admins).order_by(u.id).with_for_update())]
    if admin_ids == [user.id]:
        raise NotPossibleNow(f"{user.login} is the last administrator. Create another one first.")


async def _end_sessions(tx: Transaction, user_id: int, keep_session: str | None = None) -> None:
    await tx.execute(delete(sessions).where(sessions.c.user_key == user_id, sessions.c.digest != (keep_session or "")))


def _select_user(*more: Any) -> Any:
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


def _normalize_login(login: str) -> str:
    return login.strip().lower()[:100]


def _check_login(login: str) -> str:
    name = login.strip().lower()
    if not _LOGIN.fullmatch(name):
        message = "A login has 1 to 100 characters: a-z, 0-9 and . _ + @ -, for example ada or ada@example.com."
        raise InvalidInput(message, field="login")
    return name
