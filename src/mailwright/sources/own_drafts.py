"""Check that a draft belongs to the API key that created it: nobody else has changed it."""

from collections.abc import Collection

from sqlalchemy import select

from mailwright.domain.errors import NotPossibleNow
from mailwright.outbox.audit_log import API
from mailwright.storage.database import Transaction
from mailwright.storage.tables import audit_log


async def require_own_draft(
    tx: Transaction, tenant_id: int, subject: str, actor: str, *, allowed: Collection[str] = ()
) -> None:
    """Raise an error unless this actor created the draft and nobody else has changed it. Keys without a name fail.

    `allowed` are actions of others that do not count as a change.
    """
    a = audit_log.c
    matching = (a.subject == subject, a.tenant_id == tenant_id, a.action.not_in(allowed))
    actors = {row.actor for row in await tx.execute(select(a.actor).distinct().where(*matching))}
    if actors != {actor} or actor == API:
        raise NotPossibleNow(
            "Somebody else created or changed this draft, or the API key has no name. Replacing it requires the scope "
            "`manage`; with the scope `propose`, create a new draft."
        )
