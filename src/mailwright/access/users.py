"""Users of the dashboard, each with a role. Disabling a user or changing the password ends their sessions at once."""

import re
import secrets
from typing import Any, Final

from sqlalchemy import Label, delete, exists, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.access.account_notices import AccountNotices, RequestOrigin
from mailwright.access.account_texts import ADDRESS_CHANGED, PASSWORD_CHANGED, ROLE_CHANGED
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.passwords import Passwords, check_password
from mailwright.access.roles import Role
from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import account_links, passkeys, sessions, tenants, users

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
    has_totp: bool
    created_at: Instant
    seen_at: Instant | None
    disabled_at: Instant | None
    password_changed_at: Instant
    email: str | None = None  # None if the user name is the address, or if it is unknown
    has_password: bool = True  # False: the user signs in with an identity provider only
    has_passkey: bool = False
    language: str | None = None  # None: the language of the browser

    @property
    def has_second_factor(self) -> bool:
        return self.has_totp or self.has_passkey

    @property
    def address(self) -> str | None:
        return email_of(self.login, self.email)


class Users:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        counter: FailedSignIns,
        notices: AccountNotices,
        first_password: str | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self.notices = notices
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
            raise NotFound("There is no user {login}.", field="login", login=login[:80])
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
                await insert_user(tx, self._clock.now(), login, hashed, role, tenant_id=tenant_id, actor=actor)
        except IntegrityError as error:
            raise UserExists("A user {login} already exists.", field="login", login=login) from error
        return await self.find(login)

    async def change_password(
        self,
        login: str,
        password: str,
        *,
        actor: str,
        keep_session: str | None = None,
        origin: RequestOrigin | None = None,
    ) -> None:
        """Change the password, end every session except the one with the digest `keep_session`, and notify the user."""
        user = await self.find(login)
        check_password(password, user.login)
        hashed = await self.passwords.hash(password)
        async with self._database.write() as tx:
            await store_password(tx, self._clock.now(), user, hashed, actor=actor, keep_session=keep_session)
            await self.notices.notify(tx, user, PASSWORD_CHANGED, actor=actor, origin=origin)

    async def change_email(self, login: str, email: str, *, actor: str, origin: RequestOrigin | None = None) -> None:
        """Change the address for password resets and notices without confirmation. An empty one removes it."""
        user, stored = await self.find(login), normal_email(email) if email.strip() else None
        async with self._database.write() as tx:
            await self.store_email(tx, user, stored, actor=actor, origin=origin)

    async def store_email(
        self, tx: Transaction, user: User, email: str | None, *, actor: str, origin: RequestOrigin | None
    ) -> None:
        """Store an address and notify the previous one. Open links become invalid."""
        await tx.execute(update(users).where(users.c.id == user.id).values(email=email))
        await tx.execute(delete(account_links).where(account_links.c.user_key == user.id))
        now = self._clock.now()
        await record(tx, now, actor=actor, action="user_email", subject=user.login, tenant_id=None)
        shown = email_of(user.login, email) or "no address"
        if user.address != shown:
            await self.notices.notify(tx, user, ADDRESS_CHANGED, actor=actor, origin=origin, email=shown)

    async def change(
        self, login: str, *, role: Role | None = None, email: str | None = None, password: str | None = None, actor: str
    ) -> None:
        """Change what is given, all of it or nothing. An empty address removes it."""
        user, now = await self.find(login), self._clock.now()
        stored = normal_email(email) if email and email.strip() else None
        if password is not None:
            check_password(password, user.login)
        hashed = None if password is None else await self.passwords.hash(password)
        async with self._database.write() as tx:
            if role is not None:
                await store_role(tx, now, user, role, actor=actor, notices=self.notices)
            if email is not None:
                await self.store_email(tx, user, stored, actor=actor, origin=None)
            if hashed is not None:
                await store_password(tx, now, user, hashed, actor=actor)
                await self.notices.notify(tx, user, PASSWORD_CHANGED, actor=actor)

    async def change_language(self, user: User, language: str | None) -> None:
        """Change the language of the dashboard. None means the language of the browser."""
        async with self._database.write() as tx:
            await tx.execute(update(users).where(users.c.id == user.id).values(language=language))

    async def change_role(self, login: str, role: Role, *, actor: str) -> None:
        user = await self.find(login)
        async with self._database.write() as tx:
            await store_role(tx, self._clock.now(), user, role, actor=actor, notices=self.notices)

    async def disable(self, login: str, *, actor: str) -> None:
        """Disable a user and end their sessions. Their entries in the audit log remain."""
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            await require_another_admin(tx, user)
            still = (users.c.id == user.id, users.c.disabled_at.is_(None))
            await tx.execute(update(users).where(*still).values(disabled_at=now))
            await _revoke_links(tx, user)
            await end_sessions(tx, user.id)
            await record(tx, now, actor=actor, action="user_disable", subject=user.login, tenant_id=None)

    async def enable(self, login: str, *, actor: str) -> None:
        user, now = await self.find(login), self._clock.now()
        async with self._database.write() as tx:
            await tx.execute(update(users).where(users.c.id == user.id).values(disabled_at=None))
            await record(tx, now, actor=actor, action="user_enable", subject=user.login, tenant_id=None)

    async def test_addresses(self, user: User) -> str:
        """Return the addresses of the last test email that the user sent."""
        async with self._database.read() as tx:
            rows = await tx.execute(select(users.c.test_addresses).where(users.c.id == user.id))
        return (rows[0].test_addresses or "") if rows else ""

    async def remember_test_addresses(self, user: User, addresses: str) -> None:
        async with self._database.write() as tx:
            await tx.execute(update(users).where(users.c.id == user.id).values(test_addresses=addresses[:2_000]))

    async def sign_in(self, login: str, password: str, host: str | None) -> User | None:
        """Return the user, or None for any failure. A failure counts for both the account and the network address.

        Failures of others do not block a user with a second factor, without which a password opens nothing.
        """
        name = _normalize_login(login)

        async def verify() -> User | None:
            await self._create_first_admin(name, password)
            async with self._database.read() as tx:
                rows = await tx.execute(_select_user(users.c.password_hash).where(users.c.login == name))
            is_correct = await self.passwords.is_correct(password, rows[0].password_hash if rows else None)
            return _user(rows[0]) if is_correct and rows[0].disabled_at is None else None

        try:
            has_second_factor = (await self.find(name)).has_second_factor
        except NotFound:
            has_second_factor = False
        return await self._failed_sign_ins.check(name, host, verify, blocks_account=not has_second_factor)

    async def is_new_network(self, login: str, host: str | None) -> bool:
        """Return whether the user has not signed in from this network within the last months."""
        return await self._failed_sign_ins.is_new_network(_normalize_login(login), host)

    async def confirm_password(self, user: User, password: str, host: str | None) -> bool:
        """Verify the password of a signed-in user again, before a sensitive change."""
        return await self.sign_in(user.login, password, host) is not None

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
                await insert_user(
                    tx, self._clock.now(), login, hashed, Role.ADMIN, tenant_id=None, actor="ADMIN_PASSWORD"
                )
        except IntegrityError:
            pass  # Another process created the user at the same time.


async def insert_user(
    tx: Transaction,
    now: Instant,
    login: str,
    hashed: str | None,
    role: Role,
    *,
    tenant_id: int | None,
    actor: str,
    email: str | None = None,
) -> None:
    """Create a user. Without a password hash, they sign in with an identity provider only."""
    values = {"login": login, "role": role, "tenant_id": tenant_id, "password_hash": hashed, "email": email}
    times = {"password_changed_at": now, "created_at": now}
    await tx.execute(insert(users).values(**values, **times, totp_step=0))
    await record(tx, now, actor=actor, action="user_create", subject=login, tenant_id=None, detail={"role": role})


async def store_password(
    tx: Transaction, now: Instant, user: User, hashed: str, *, actor: str, keep_session: str | None = None
) -> None:
    """Store a new password. Open links that reset the old one become invalid, and other sessions end."""
    values = {"password_hash": hashed, "password_changed_at": now}
    await tx.execute(update(users).where(users.c.id == user.id).values(**values))
    await tx.execute(delete(account_links).where(account_links.c.user_key == user.id))
    await end_sessions(tx, user.id, keep_session)
    await record(tx, now, actor=actor, action="user_password", subject=user.login, tenant_id=None)


async def store_role(
    tx: Transaction, now: Instant, user: User, role: Role, *, actor: str, notices: AccountNotices
) -> None:
    """Store a new role and notify the user, or raise if the installation would lose its last administrator."""
    if role is not Role.ADMIN:
        await require_another_admin(tx, user)
    await tx.execute(update(users).where(users.c.id == user.id).values(role=role))
    await _revoke_links(tx, user)
    detail = {"from": user.role, "to": role}
    await record(tx, now, actor=actor, action="user_role", subject=user.login, tenant_id=None, detail=detail)
    if role is not user.role:
        await notices.notify(tx, user, ROLE_CHANGED, actor=actor, before=user.role.label, after=role.label)


async def find_user(tx: Transaction, user_id: int) -> User:
    [row] = await tx.execute(_select_user().where(users.c.id == user_id))
    return _user(row)


async def _revoke_links(tx: Transaction, user: User) -> None:
    """Make the user's reset links and their open invitations invalid. An invitation could be a way back in."""
    is_of_user = or_(account_links.c.user_key == user.id, account_links.c.created_by == user.login)
    await tx.execute(delete(account_links).where(is_of_user))


def normal_email(email: str) -> str:
    try:
        return address.normal(address.trim(email))
    except address.InvalidAddress as error:
        raise InvalidInput("This is not an email address: {error}.", field="email", error=error) from error


def email_of(login: str, email: str | None) -> str | None:
    """Return the address of a user: the stored address, or the user name if it is an address."""
    if email is not None:
        return email
    try:
        return address.normal(login)
    except address.InvalidAddress:
        return None


async def require_another_admin(tx: Transaction, user: User) -> None:
    """Raise if the user is the last administrator, because only the console could then manage the installation.

    At least one administrator with a password must stay, because a failure of the identity provider locks out all
    others. Lock the rows of all administrators, so that two who disable each other at the same time cannot both
    succeed.
    """
    u = users.c
    admins = (u.role == Role.ADMIN, u.disabled_at.is_(None), u.tenant_id.is_(None))
    query = select(u.id, u.password_hash.is_not(None).label("has_password")).where(*admins)
    has_password = {row.id: bool(row.has_password) for row in await tx.execute(query.order_by(u.id).with_for_update())}
    own = has_password.pop(user.id, None)
    if own is None:
        return
    if own and not any(has_password.values()):
        raise NotPossibleNow(
            "The user {login} is the last administrator with a password. Create another one first.", login=user.login
        )
    if not has_password:
        raise NotPossibleNow("The user {login} is the last administrator. Create another one first.", login=user.login)


async def end_sessions(tx: Transaction, user_id: int, keep_session: str | None = None) -> None:
    await tx.execute(delete(sessions).where(sessions.c.user_key == user_id, sessions.c.digest != (keep_session or "")))


def has_passkey() -> Label[bool]:
    """Return the column that says whether the user of a row has a passkey."""
    return exists().where(passkeys.c.user_key == users.c.id).label("has_passkey")


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
        u.email,
        u.password_hash.is_not(None).label("has_password"),
        has_passkey(),
        u.language,
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
        row.email,
        bool(row.has_password),
        bool(row.has_passkey),
        row.language,
    )


def _normalize_login(login: str) -> str:
    return login.strip().lower()[:100]


def is_login(text: str) -> bool:
    """Return whether a text can be a user name."""
    return _LOGIN.fullmatch(text) is not None


def _check_login(login: str) -> str:
    name = login.strip().lower()
    if not is_login(name):
        raise InvalidInput(
            "A login has 1 to 100 characters: a-z, 0-9 and . _ + @ -, for example ada or ada@example.com.",
            field="login",
        )
    return name
