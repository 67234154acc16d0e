"""Find out who is behind a name in the audit log, because one person can have several accounts and API keys."""

from typing import Final

from sqlalchemy import or_, select

from mailwright.access.roles import Role
from mailwright.access.users import email_of
from mailwright.outbox.audit_log import API
from mailwright.storage.database import Transaction
from mailwright.storage.tables import api_keys, audit_log, users

_APPROVERS: Final = (Role.EDITOR, Role.ADMIN)


def names_of(login: str, email: str | None) -> frozenset[str]:
    """Return what identifies a person: their user name, and their address without a `+` part."""
    found = email_of(login, email)
    return frozenset({login} | ({_mailbox(found)} if found is not None else set()))


async def people_behind(tx: Transaction, tenant_id: int, actor: str) -> frozenset[str]:
    """Return what identifies the person who acted. An API key counts as the people who created keys of its name."""
    kind, _, key_name = actor.partition(":")
    logins = {actor}
    if kind == API:
        k = api_keys.c
        mine = (k.tenant_id == tenant_id, k.name == key_name, k.created_by.is_not(None))
        logins |= {row.created_by for row in await tx.execute(select(k.created_by).where(*mine))}
    rows = await tx.execute(select(users.c.login, users.c.email).where(users.c.login.in_(logins)))
    return frozenset(logins).union(*(names_of(row.login, row.email) for row in rows))


async def last_template_author(tx: Transaction, tenant_id: int, template_id: str) -> str | None:
    """Return who wrote the newest version of a template, if the audit log still knows."""
    a = audit_log.c
    matching = (a.subject == template_id, a.tenant_id == tenant_id, a.action == "template.write")
    rows = await tx.execute(select(a.actor).where(*matching).order_by(a.id.desc()).limit(1))
    return rows[0].actor if rows else None


async def possible_approvers(tx: Transaction, tenant_id: int) -> list[tuple[str, str | None]]:
    """Return the user names and addresses of everyone whose role may start campaigns of the tenant."""
    u = users.c
    works_here = or_(u.tenant_id.is_(None), u.tenant_id == tenant_id)
    query = select(u.login, u.email).where(works_here, u.role.in_(_APPROVERS), u.disabled_at.is_(None))
    return [(row.login, row.email) for row in await tx.execute(query.order_by(u.login))]


def _mailbox(email: str) -> str:
    local, _, domain = email.lower().rpartition("@")
    return f"{local.split('+')[0]}@{domain}"
