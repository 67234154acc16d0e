"""Identify the person behind a name in the audit log, because one person can have several accounts and API keys."""

from typing import Any, Final

from sqlalchemy import or_, select

from mailwright.access.roles import Role
from mailwright.access.users import email_of
from mailwright.domain.clock import Instant
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.audit_log import API
from mailwright.storage.database import Transaction
from mailwright.storage.tables import api_keys, audit_log, tenants, users

_APPROVERS: Final = (Role.EDITOR, Role.ADMIN)
# All API keys without an owner count as this one person.
_NO_OWNER: Final = "API keys without an owner"


def names_of(login: str, email: str | None) -> frozenset[str]:
    """Return what identifies a person: their user name, and their address without a `+` part."""
    found = email_of(login, email)
    return frozenset({login} | ({_mailbox(found)} if found is not None else set()))


async def people_behind(tx: Transaction, tenant_id: int, actor: str) -> frozenset[str]:
    """Return what identifies the person who acted. An API key counts as the owners of all keys of its name."""
    kind, _, key_name = actor.partition(":")
    logins = {actor}
    if kind == API:
        k = api_keys.c
        found = await tx.execute(select(k.owner).where(k.tenant_id == tenant_id, k.name == key_name))
        logins |= {row.owner or _NO_OWNER for row in found}
    rows = await tx.execute(select(users.c.login, users.c.email).where(users.c.login.in_(logins)))
    return frozenset(logins).union(*(names_of(row.login, row.email) for row in rows))


async def find_missing_owner(tx: Transaction, tenant_id: int, actor: str, at: Instant) -> str | None:
    """Return why a request that an API key makes at this time is refused, or None.

    If the tenant requires approvals, the key needs an owner: otherwise its holder could approve their own request. An
    agent on the machine itself has no key and counts as the console.
    """
    kind, _, key_name = actor.partition(":")
    if kind != API:
        return None
    k = api_keys.c
    was_valid = (k.created_at <= at, or_(k.revoked_at.is_(None), k.revoked_at > at))
    query = select(k.id).join(tenants, tenants.c.id == k.tenant_id).order_by(k.id).limit(1)
    ownerless = (k.tenant_id == tenant_id, k.name == key_name, k.owner.is_(None), *was_valid)
    rows = await tx.execute(query.where(*ownerless, tenants.c.approval_over.is_not(None)))
    if not rows:
        return None
    return lazy_gettext(
        "The API key {key} (id {id}) has no owner, so Mailwright cannot check that somebody else approves. Set its "
        "owner, or request the approval as a signed-in user.",
        key=key_name or rows[0].id,
        id=rows[0].id,
    )


async def last_template_author(tx: Transaction, tenant_id: int, template_id: str) -> str | None:
    """Return who wrote the newest version of a template, if the audit log still has the entry."""
    a = audit_log.c
    matching = (a.subject == template_id, a.tenant_id == tenant_id, a.action == "template.write")
    rows = await tx.execute(select(a.actor).where(*matching).order_by(a.id.desc()).limit(1))
    return rows[0].actor if rows else None


async def possible_approvers(tx: Transaction, tenant_id: int) -> list[Any]:
    """Return the login, email and language of everyone whose role may start campaigns of the tenant."""
    u = users.c
    works_here = or_(u.tenant_id.is_(None), u.tenant_id == tenant_id)
    query = select(u.login, u.email, u.language).where(works_here, u.role.in_(_APPROVERS), u.disabled_at.is_(None))
    return list(await tx.execute(query.order_by(u.login)))


def _mailbox(email: str) -> str:
    local, _, domain = email.lower().rpartition("@")
    return f"{local.split('+')[0]}@{domain}"
