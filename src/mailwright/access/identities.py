"""Identities: accounts of an identity provider (OpenID Connect) with which users sign in.

A user is found by issuer and subject, which never change and are never given to another person. A verified email
address alone opens no existing account, unless the installation allows this explicitly.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.access.account_links import take_invitation
from mailwright.access.account_notices import AccountNotices, RequestOrigin
from mailwright.access.account_texts import IDENTITY_CONNECTED
from mailwright.access.challenges import Challenges
from mailwright.access.id_tokens import Person
from mailwright.access.oidc_settings import OidcSettings
from mailwright.access.roles import Forbidden, Role
from mailwright.access.users import (
    User,
    end_sessions,
    find_user,
    insert_user,
    is_login,
    require_another_admin,
    store_role,
)
from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import identities, tenants, users

log = logger(__name__)


class NoAccount(Forbidden):
    """There is no account for you here. Ask your administrator for an invitation."""

    code = "NO_ACCOUNT"


@dataclass(frozen=True, slots=True)
class Identity:
    """An account of the identity provider, as its user sees it."""

    id: int
    issuer: str
    email: str | None
    created_at: Instant
    seen_at: Instant | None


@dataclass(frozen=True, slots=True)
class _Grant:
    """The role and tenant of a new user, and who granted them."""

    role: Role
    tenant_id: int | None
    email: str | None
    actor: str
    is_managed: bool = False


class Identities:
    def __init__(self, database: Database, clock: Clock, settings: OidcSettings, notices: AccountNotices) -> None:
        self._database = database
        self._notices = notices
        self._clock = clock
        self._settings = settings
        self.challenges = Challenges(database, clock)

    async def sign_in(self, person: Person, challenge: Mapping[str, Any], *, invitation: str = "") -> User:
        """Return the user of a person, or create the user if an invitation, a group or a setting allows it."""
        self._require_domain(person)
        now = self._clock.now()
        try:
            async with self._database.write() as tx:
                await self.challenges.use(tx, challenge)
                user_id = await self._find(tx, person, now) or await self._admit(tx, person, now, invitation)
                user = await find_user(tx, user_id)
        except IntegrityError as error:
            raise NotPossibleNow("This account was created in the meantime. Sign in again.") from error
        if user.disabled_at is not None:
            raise NoAccount("The user {login} is disabled. Ask your administrator.", login=user.login)
        return user

    async def connect(
        self, user: User, person: Person, challenge: Mapping[str, Any], *, origin: RequestOrigin | None = None
    ) -> None:
        """Let a signed-in user sign in with this identity from now on, and notify them."""
        self._require_domain(person)
        try:
            async with self._database.write() as tx:
                await self.challenges.use(tx, challenge)
                await _insert_identity(tx, self._clock.now(), person, user, actor=user.login)
                await self._notices.notify(
                    tx, user, IDENTITY_CONNECTED, actor=user.login, origin=origin, issuer=person.issuer
                )
        except IntegrityError as error:
            raise NotPossibleNow("This account of the identity provider is connected already.") from error

    async def list_for_user(self, user: User) -> list[Identity]:
        i = identities.c
        query = select(i.id, i.issuer, i.email, i.created_at, i.seen_at).where(i.user_key == user.id)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(i.id))
        return [Identity(row.id, row.issuer, row.email, row.created_at, row.seen_at) for row in rows]

    async def disconnect(self, user: User, identity_id: int, *, actor: str) -> None:
        if not user.has_password and not user.has_passkey:
            raise NotPossibleNow("Add a passkey first. Otherwise nobody could sign in to this account.")
        matching = (identities.c.id == identity_id, identities.c.user_key == user.id)
        async with self._database.write() as tx:
            rows = await tx.execute(delete(identities).where(*matching).returning(identities.c.issuer))
            if not rows:
                raise NotFound("This account was disconnected in the meantime.")
            now, detail = self._clock.now(), {"issuer": rows[0].issuer}
            await record(
                tx, now, actor=actor, action="user_identity_gone", subject=user.login, tenant_id=None, detail=detail
            )

    def _require_domain(self, person: Person) -> None:
        domains = self._settings.email_domains
        if domains and (person.email is None or address.domain_of(person.email) not in domains):
            raise NoAccount("Sign in with a verified email address of {domains}.", domains=", ".join(sorted(domains)))

    async def _find(self, tx: Transaction, person: Person, now: Instant) -> int | None:
        """Return the user of a known identity. If groups gave the user access, apply the current groups."""
        i = identities.c
        known = (i.issuer == person.issuer, i.subject == person.subject)
        rows = await tx.execute(
            update(identities).where(*known).values(seen_at=now, email=person.email).returning(i.user_key, i.is_managed)
        )
        if not rows:
            return None
        if rows[0].is_managed:
            await self._apply_groups(tx, await find_user(tx, rows[0].user_key), person, now)
        return int(rows[0].user_key)

    async def _apply_groups(self, tx: Transaction, user: User, person: Person, now: Instant) -> None:
        rule, actor = self._settings.rule_for(person.groups), self._settings.issuer
        if rule is None:
            raise NoAccount("You are in no group that has access. Ask your administrator.")
        tenant_id = await _tenant_of(tx, rule.tenant)
        try:
            if rule.role is not Role.ADMIN or tenant_id is not None:
                await require_another_admin(tx, user)
        except NotPossibleNow as error:
            log.warning("oidc_role_not_applied", login=user.login, reason=str(error))
            return
        if rule.role is not user.role:
            await store_role(tx, now, user, rule.role, actor=actor, notices=self._notices)
        if tenant_id != user.tenant_id:
            await tx.execute(update(users).where(users.c.id == user.id).values(tenant_id=tenant_id))
            await end_sessions(tx, user.id)  # They show the data of the tenant before.
            detail = {"tenant": rule.tenant}
            await record(tx, now, actor=actor, action="user_tenant", subject=user.login, tenant_id=None, detail=detail)

    async def _admit(self, tx: Transaction, person: Person, now: Instant, invitation: str) -> int:
        """Return the user for an identity that was never seen before, or raise if nothing gives them access."""
        grant = await _invited(tx, person, now, invitation)
        if grant is None and (existing := await self._find_existing(tx, person)) is not None:
            await _insert_identity(tx, now, person, existing, actor=self._settings.issuer)
            issuer = person.issuer
            await self._notices.notify(tx, existing, IDENTITY_CONNECTED, actor=existing.login, issuer=issuer)
            return existing.id
        grant = grant or await self._mapped(tx, person)
        login = _login_for(person)
        if await tx.execute(select(users.c.id).where(users.c.login == login)):
            raise NoAccount("A user {login} exists already. Sign in with the password.", login=login)
        await insert_user(
            tx, now, login, None, grant.role, tenant_id=grant.tenant_id, actor=grant.actor, email=grant.email
        )
        [row] = await tx.execute(select(users.c.id).where(users.c.login == login))
        user = await find_user(tx, row.id)
        await _insert_identity(tx, now, person, user, actor=login, is_managed=grant.is_managed)
        return user.id

    async def _mapped(self, tx: Transaction, person: Person) -> _Grant:
        """Return the access of a person without an invitation: by their group, or as a viewer of one tenant."""
        settings, rule = self._settings, self._settings.rule_for(person.groups)
        if rule is not None:
            tenant_id = await _tenant_of(tx, rule.tenant)
            return _Grant(rule.role, tenant_id, person.email, settings.issuer, is_managed=True)
        if person.email is None:
            raise NoAccount("There is no account for you here, and the identity provider did not confirm your address.")
        if settings.new_user_tenant is None:
            raise NoAccount(
                "There is no account for {email}. Ask your administrator for an invitation.", email=person.email
            )
        tenant_id = await _tenant_of(tx, settings.new_user_tenant)
        return _Grant(Role.VIEWER, tenant_id, person.email, settings.issuer)

    async def _find_existing(self, tx: Transaction, person: Person) -> User | None:
        """Return the user whose name is the verified address, if users may be connected by it."""
        if person.email is None:
            return None
        rows = await tx.execute(select(users.c.id).where(users.c.login == person.email))
        if rows and not self._settings.links_existing:
            raise NoAccount(
                "A user {email} exists already. Sign in with the password, then connect {label} on the account page.",
                email=person.email,
                label=self._settings.label,
            )
        return await find_user(tx, rows[0].id) if rows else None


async def _invited(tx: Transaction, person: Person, now: Instant, token: str) -> _Grant | None:
    if not token and person.email is None:
        return None
    row = await take_invitation(tx, now, token=token, email=person.email)
    if row is None:
        return None
    proved = row.email if row.is_emailed else None
    return _Grant(Role(row.role), row.tenant_id, person.email or proved, row.created_by)


async def _insert_identity(
    tx: Transaction, now: Instant, person: Person, user: User, *, actor: str, is_managed: bool = False
) -> None:
    values = {"issuer": person.issuer, "subject": person.subject, "email": person.email, "is_managed": is_managed}
    await tx.execute(insert(identities).values(**values, user_key=user.id, created_at=now, seen_at=now))
    detail = {"issuer": person.issuer}
    await record(tx, now, actor=actor, action="user_identity", subject=user.login, tenant_id=None, detail=detail)


async def _tenant_of(tx: Transaction, name: str | None) -> int | None:
    """Return the tenant with this name; None means all tenants. An unknown name gives no access at all."""
    if name is None:
        return None
    rows = await tx.execute(select(tenants.c.id).where(tenants.c.name == name))
    if not rows:
        log.error("oidc_tenant_unknown", tenant=name, message="Correct the OIDC settings.")
        raise NoAccount("Your access belongs to a tenant that does not exist. Ask your administrator.")
    return int(rows[0].id)


def _login_for(person: Person) -> str:
    """Return the user name: the verified address, or a name that is derived from the identity."""
    if person.email is not None and is_login(person.email):
        return person.email
    return f"oidc-{hashlib.sha256(f'{person.issuer} {person.subject}'.encode()).hexdigest()[:12]}"
