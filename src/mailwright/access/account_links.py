"""Single-use links for people: invitations, resets of forgotten passwords and confirmations of new addresses.

The database holds only the digest of a link. Its email holds the link encrypted, so that a user who reads messages in
the dashboard or the API cannot take over an account.
"""

import secrets
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, insert, or_, select
from sqlalchemy.exc import IntegrityError

from mailwright.access.account_notices import AccountNotices, RequestOrigin
from mailwright.access.account_texts import (
    ADDRESS_REQUESTED,
    CONFIRM_ADDRESS,
    INVITATION,
    PASSWORD_CHANGED,
    PASSWORD_RESET,
)
from mailwright.access.passwords import check_password
from mailwright.access.roles import Role
from mailwright.access.sessions import token_digest
from mailwright.access.users import User, UserExists, Users, email_of, insert_user, normal_email, store_password
from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.audit_log import describe_actor, record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import account_links, tenants, users

INVITATION_AGE: Final[Instant] = 7 * DAY
RESET_AGE: Final[Instant] = HOUR
CONFIRMATION_AGE: Final[Instant] = DAY
# Minimum time between two links of a kind for one user, so that nobody can flood a mailbox.
RESET_INTERVAL: Final[Instant] = 5 * MINUTE
_MAX_TOKEN: Final = 100


class LinkKind(StrEnum):
    INVITATION = "invitation"
    RESET = "reset"
    ADDRESS = "address"


_AGES: Final = {LinkKind.INVITATION: INVITATION_AGE, LinkKind.RESET: RESET_AGE, LinkKind.ADDRESS: CONFIRMATION_AGE}
# The page of links that existing users get by email, the text of the email, and the action in the audit log.
_LINKS: Final = {
    LinkKind.RESET: ("/sign-in/reset", PASSWORD_RESET, "user_reset_request"),
    LinkKind.ADDRESS: ("/account/email/confirm", CONFIRM_ADDRESS, "user_email_request"),
}


class LinkInvalid(NotFound):
    """This link has expired or was already used. Ask for a new one."""

    code = "LINK_INVALID"


class LinkOfAnotherUser(LinkInvalid):
    """This link belongs to another user. Sign out, and open it again as the user who asked for it."""


@dataclass(frozen=True, slots=True)
class Invitation:
    id: int
    email: str
    role: Role
    tenant_id: int | None  # None: an invitation to the whole installation
    tenant: str | None
    created_by: str
    created_at: Instant
    ends_at: Instant
    is_emailed: bool  # False: the inviter passed the link on, so nothing proves that the address is theirs

    @property
    def inviter(self) -> str | None:
        """The user who invites. None if the console or an API key does, because the reader does not know them."""
        return _person(self.created_by)


class AccountLinks:
    def __init__(self, database: Database, clock: Clock, users: Users, notices: AccountNotices) -> None:
        self._database = database
        self._clock = clock
        self._users = users
        self._notices = notices
        self._public_url = notices.public_url

    # Invitations.

    async def invite(
        self, email: str, role: Role, *, tenant_id: int | None, actor: str, sends_email: bool = True
    ) -> str:
        """Return the link of a new invitation, which replaces an earlier one of the tenant to the same address.

        Without `sends_email`, only the caller gets the link.
        """
        to, now, token = normal_email(email), self._clock.now(), secrets.token_urlsafe(32)
        link = f"{self._public_url}/sign-in/invitation?token={token}"
        async with self._database.write() as tx:
            if any(user.tenant_id == tenant_id for user in await _users_of(tx, to)):
                raise UserExists("A user with the address {to} already exists.", field="email", to=to)
            same = account_links.c.tenant_id.is_not_distinct_from(tenant_id)
            earlier = (_of_kind(LinkKind.INVITATION), account_links.c.email == to, same)
            await tx.execute(delete(account_links).where(*earlier))
            stored = {"email": to, "role": role, "tenant_id": tenant_id, "created_by": actor, "is_emailed": sends_email}
            await _insert_link(tx, LinkKind.INVITATION, token, now, **stored)
            detail = {"role": role}
            await record(tx, now, actor=actor, action="user_invite", subject=to, tenant_id=tenant_id, detail=detail)
            if sends_email:
                await self._notices.send(
                    tx,
                    to,
                    INVITATION,
                    link,
                    tenant_id=tenant_id,
                    language=None,
                    lasts=INVITATION_AGE,
                    inviter=_person(actor) or lazy_gettext("An administrator"),
                    role=role.label,
                )
        return link

    async def list_invitations(self, tenant_id: int | None) -> list[Invitation]:
        """Return the open invitations of a tenant, or all of them."""
        own = () if tenant_id is None else (account_links.c.tenant_id == tenant_id,)
        async with self._database.read() as tx:
            rows = await tx.execute(_select_invitations(self._clock.now()).where(*own))
        return [_invitation(row) for row in rows]

    async def revoke_invitation(self, invitation_id: int, *, tenant_id: int | None, actor: str) -> str:
        """Make the link of an invitation invalid, and return its address."""
        own = () if tenant_id is None else (account_links.c.tenant_id == tenant_id,)
        matching = (_of_kind(LinkKind.INVITATION), account_links.c.id == invitation_id, *own)
        async with self._database.write() as tx:
            rows = await tx.execute(
                delete(account_links).where(*matching).returning(account_links.c.email, account_links.c.tenant_id)
            )
            if not rows:
                raise NotFound("This invitation was accepted or revoked in the meantime.")
            await record(
                tx,
                self._clock.now(),
                actor=actor,
                action="user_invite_revoke",
                subject=rows[0].email,
                tenant_id=rows[0].tenant_id,
            )
        return str(rows[0].email)

    async def find_invitation(self, token: str) -> Invitation:
        query = _select_invitations(self._clock.now()).where(account_links.c.digest == _digest(token))
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        if not rows:
            raise LinkInvalid
        return _invitation(rows[0])

    async def accept_invitation(self, token: str, login: str, password: str) -> User:
        """Create the invited user. If the user name or the password is not acceptable, the link stays valid.

        If the inviter passed the link on, the invited address counts only after the user has confirmed it.
        """
        name = self._users.check(login, password)
        invitation = await self.find_invitation(token)
        _require_own_login(name, invitation)
        hashed, now = await self._users.passwords.hash(password), self._clock.now()
        try:
            async with self._database.write() as tx:
                row = await _use_link(tx, LinkKind.INVITATION, token, now)
                role, tenant_id = Role(row.role), row.tenant_id
                email = row.email if row.is_emailed else None
                await insert_user(tx, now, name, hashed, role, tenant_id=tenant_id, actor=row.created_by, email=email)
        except IntegrityError as error:
            raise UserExists(
                "A user {name} already exists. Choose another user name.", field="login", name=name
            ) from error
        user = await self._users.find(name)
        if not invitation.is_emailed:
            await self.request_address(user, invitation.email)
        return user

    # Forgotten passwords.

    async def request_reset(self, name: str) -> None:
        """Email a link to each user with this user name or address. Nobody learns from this whether they exist."""
        wanted, now = name.strip().lower()[:320], self._clock.now()
        async with self._database.write() as tx:
            for user in await _users_of(tx, wanted):
                if not user.has_password:
                    continue
                to = email_of(user.login, user.email)
                if to is None or await _was_sent(tx, LinkKind.RESET, user.id, now):
                    continue
                await self._send_link(tx, user, LinkKind.RESET, to, now)

    async def find_reset(self, token: str) -> str:
        """Return the user name whose password a link resets."""
        query = (
            select(users.c.login)
            .select_from(account_links.join(users, users.c.id == account_links.c.user_key))
            .where(_of_kind(LinkKind.RESET), account_links.c.digest == _digest(token))
            .where(account_links.c.ends_at > self._clock.now(), users.c.disabled_at.is_(None))
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        if not rows:
            raise LinkInvalid
        return str(rows[0].login)

    async def reset_password(self, token: str, password: str, *, origin: RequestOrigin | None = None) -> None:
        """Set the new password, end all sessions of the user and notify them. A second factor stays required."""
        user = await self._users.find(await self.find_reset(token))
        check_password(password, user.login)
        hashed, now = await self._users.passwords.hash(password), self._clock.now()
        async with self._database.write() as tx:
            await _use_link(tx, LinkKind.RESET, token, now)
            await store_password(tx, now, user, hashed, actor=user.login)
            await self._notices.notify(tx, user, PASSWORD_CHANGED, actor=user.login, origin=origin)

    # New addresses.

    async def request_address(self, user: User, email: str, *, origin: RequestOrigin | None = None) -> None:
        """Email a link to a new address and notify the current one, which stays in use until the user confirms."""
        to, now = normal_email(email), self._clock.now()
        if to == user.address:
            raise InvalidInput("This is your address already.", field="email")
        async with self._database.write() as tx:
            if await _was_sent(tx, LinkKind.ADDRESS, user.id, now):
                raise InvalidInput("You asked for a link a moment ago. Try again in five minutes.", field="email")
            await self._send_link(tx, user, LinkKind.ADDRESS, to, now)
            await self._notices.notify(tx, user, ADDRESS_REQUESTED, actor=user.login, origin=origin, email=to)

    async def _send_link(self, tx: Transaction, user: User, kind: LinkKind, to: str, now: Instant) -> None:
        """Email a link to a user. It replaces an earlier link of the same kind."""
        path, text, action = _LINKS[kind]
        token = secrets.token_urlsafe(32)
        await _delete_links(tx, kind, user.id)
        await _insert_link(tx, kind, token, now, email=to, user_key=user.id, created_by=user.login)
        await record(tx, now, actor=user.login, action=action, subject=user.login, tenant_id=None)
        link = f"{self._public_url}{path}?token={token}"
        tenant_id, language, lasts = user.tenant_id, user.language, _AGES[kind]
        await self._notices.send(
            tx, to, text, link, tenant_id=tenant_id, language=language, lasts=lasts, login=user.login
        )

    async def find_requested_address(self, user: User) -> str | None:
        """Return the address that the user has not confirmed yet."""
        own = (_of_kind(LinkKind.ADDRESS), account_links.c.user_key == user.id)
        async with self._database.read() as tx:
            rows = await tx.execute(
                select(account_links.c.email).where(*own, account_links.c.ends_at > self._clock.now())
            )
        return str(rows[0].email) if rows else None

    async def find_confirmation(self, user: User, token: str) -> str:
        """Return the address that a link confirms. Only the user who asked for it can use the link."""
        query = select(account_links).where(*_matching(LinkKind.ADDRESS, token, self._clock.now()))
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        if not rows:
            raise LinkInvalid
        return _own_address(rows[0], user)

    async def confirm_address(self, user: User, token: str, *, origin: RequestOrigin | None = None) -> str:
        """Replace the current address with the address of a link, and return it.

        Only the user who asked for the link can do this.
        """
        async with self._database.write() as tx:
            row = await _use_link(tx, LinkKind.ADDRESS, token, self._clock.now())
            email = _own_address(row, user)
            await self._users.store_email(tx, user, email, actor=user.login, origin=origin)
        return email

    async def cancel_address(self, user: User) -> None:
        """Make the link to confirm a new address invalid."""
        async with self._database.write() as tx:
            await _delete_links(tx, LinkKind.ADDRESS, user.id)


async def take_invitation(tx: Transaction, now: Instant, *, token: str = "", email: str | None = None) -> Any:
    """Delete and return the invitation with this token, or the only open one to this verified address.

    Return None if there is none. Several invitations to one address are ambiguous, so none of them counts.
    """
    if token:
        return await _use_link(tx, LinkKind.INVITATION, token, now)
    matching = (_of_kind(LinkKind.INVITATION), account_links.c.email == email, account_links.c.ends_at > now)
    found = await tx.execute(select(account_links).where(*matching).limit(2))
    if len(found) != 1:
        return None
    taken = await tx.execute(
        delete(account_links).where(account_links.c.id == found[0].id).returning(account_links.c.id)
    )
    return found[0] if taken else None


def _require_own_login(name: str, invitation: Invitation) -> None:
    """Raise if a user name is an address that the person has not verified, because invitations and identities match
    users by it.
    """
    if "@" not in name or (invitation.is_emailed and name == invitation.email):
        return
    if invitation.is_emailed:
        raise InvalidInput(
            "A user name with @ must be the invited address, {email}. Or choose one without @.",
            email=invitation.email,
            field="login",
        )
    raise InvalidInput("Choose a user name without @. You confirm your address afterwards.", field="login")


def _digest(token: str) -> str:
    """Return the digest of a link's token.

    It differs from the digest of a session, so that a link cannot be used as a session or the other way round.
    """
    return token_digest(f"account {token[:_MAX_TOKEN]}")


def _of_kind(kind: LinkKind) -> ColumnElement[bool]:
    return account_links.c.kind == kind


def _person(actor: str) -> str | None:
    return actor if describe_actor(actor) == actor else None


async def _insert_link(tx: Transaction, kind: LinkKind, token: str, now: Instant, **values: Any) -> None:
    await tx.execute(delete(account_links).where(account_links.c.ends_at < now))
    named = {"digest": _digest(token), "kind": kind, "created_at": now, "ends_at": now + _AGES[kind]}
    await tx.execute(insert(account_links).values(**named, **values))


async def _use_link(tx: Transaction, kind: LinkKind, token: str, now: Instant) -> Any:
    """Delete the link, so that it works once, and return it."""
    matching = _matching(kind, token, now)
    rows = await tx.execute(delete(account_links).where(*matching).returning(*account_links.c))
    if not rows:
        raise LinkInvalid
    return rows[0]


def _matching(kind: LinkKind, token: str, now: Instant) -> tuple[ColumnElement[bool], ...]:
    return _of_kind(kind), account_links.c.digest == _digest(token), account_links.c.ends_at > now


def _own_address(row: Any, user: User) -> str:
    """Return the address of a link, or raise if somebody else asked for it."""
    if row.user_key != user.id:
        raise LinkOfAnotherUser
    return str(row.email)


async def _delete_links(tx: Transaction, kind: LinkKind, user_id: int) -> None:
    await tx.execute(delete(account_links).where(_of_kind(kind), account_links.c.user_key == user_id))


async def _was_sent(tx: Transaction, kind: LinkKind, user_id: int, now: Instant) -> bool:
    recent = (_of_kind(kind), account_links.c.user_key == user_id, account_links.c.created_at > now - RESET_INTERVAL)
    return bool(await tx.execute(select(account_links.c.id).where(*recent)))


async def _users_of(tx: Transaction, name: str) -> Any:
    """Return the enabled users with this user name or address."""
    u = users.c
    query = select(u.id, u.login, u.email, u.tenant_id, u.language, u.password_hash.is_not(None).label("has_password"))
    return await tx.execute(query.where(or_(u.login == name, u.email == name), u.disabled_at.is_(None)).limit(5))


def _select_invitations(now: Instant) -> Any:
    return (
        select(account_links, tenants.c.name.label("tenant"))
        .select_from(account_links.outerjoin(tenants, tenants.c.id == account_links.c.tenant_id))
        .where(_of_kind(LinkKind.INVITATION), account_links.c.ends_at > now)
        .order_by(account_links.c.created_at.desc())
    )


def _invitation(row: Any) -> Invitation:
    return Invitation(
        row.id,
        row.email,
        Role(row.role),
        row.tenant_id,
        row.tenant,
        row.created_by,
        row.created_at,
        row.ends_at,
        bool(row.is_emailed),
    )
