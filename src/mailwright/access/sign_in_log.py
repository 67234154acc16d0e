"""Sign-ins in the audit log: who signed in how and from where, and which attempts failed."""

from enum import StrEnum
from typing import Any, Final

from sqlalchemy import select

from mailwright.domain.clock import Instant
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Transaction
from mailwright.storage.tables import users

# The subject of a failed sign-in without a user. The entered name is not stored, because it can be a password.
UNKNOWN_USER: Final = "unknown user"
_MAX_REASON: Final = 200


class SignInMethod(StrEnum):
    PASSWORD = "password"  # noqa: S105 - a name, not a secret
    CODE = "code"  # of an authenticator app, or a recovery code, after the password
    PASSKEY = "passkey"
    IDENTITY_PROVIDER = "identity provider"
    LINK = "link"  # from the command line
    INVITATION = "invitation"  # or the set-up of the first administrator
    BEARER = "bearer token"  # ADMIN_PASSWORD and the mailout token
    SMTP = "SMTP"


async def record_sign_in(tx: Transaction, now: Instant, user_id: int, method: SignInMethod, address: str) -> None:
    """Record a complete sign-in for the tenant of the user."""
    [user] = await tx.execute(select(users.c.login, users.c.tenant_id).where(users.c.id == user_id))
    detail = {"method": method, "address": address[:100]}
    await _record(tx, now, "user_sign_in", user.login, user.tenant_id, detail=detail)


async def record_failure(
    tx: Transaction, now: Instant, login: str | None, method: SignInMethod, address: str, *, reason: str = ""
) -> None:
    """Record an attempt that failed. A name that no user has is not stored."""
    u = users.c
    rows = await tx.execute(select(u.login, u.tenant_id).where(u.login == login)) if login is not None else []
    name, tenant_id = (rows[0].login, rows[0].tenant_id) if rows else (UNKNOWN_USER, None)
    detail = {"method": method, "address": address[:100]} | ({"reason": reason[:_MAX_REASON]} if reason else {})
    await _record(tx, now, "user_sign_in_failed", name, tenant_id, detail=detail)


async def _record(
    tx: Transaction, now: Instant, action: str, login: str, tenant_id: int | None, *, detail: dict[str, Any]
) -> None:
    await record(tx, now, actor=login, action=action, subject=login, tenant_id=tenant_id, detail=detail)
