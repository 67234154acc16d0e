"""Emails about accounts, accepted in the transaction of the change that they report."""

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mailwright.access.account_texts import SIGN_IN_NOTICE, AccountText
from mailwright.domain.clock import DAY, Clock, Instant, utc_text
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import SEALED_LINK_MARK
from mailwright.domain.system_email import SystemEmail
from mailwright.domain.translation import catalogue_of_page, lazy_gettext, lazy_join, using
from mailwright.ops.catalogues import load_catalogue
from mailwright.outbox.accept import accept
from mailwright.outbox.audit_log import describe_actor
from mailwright.outbox.system_emails import ACCOUNT_PREFIX, RenderSystemEmail, write_system_email
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import tenants

if TYPE_CHECKING:
    from mailwright.access.users import User


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The IP address and the browser of a request, and its time as the user reads it."""

    address: str
    browser: str
    time: str


class AccountNotices:
    def __init__(
        self, database: Database, clock: Clock, *, public_url: str, render: RenderSystemEmail, language: str = "en"
    ) -> None:
        """`language`: of the installation."""
        self._database = database
        self._clock = clock
        self._render = render
        self._language = language
        self.public_url = public_url

    async def notify_sign_in(self, user: "User", origin: RequestOrigin) -> None:
        """Notify a user of a sign-in from a network that they have not used before."""
        async with self._database.write() as tx:
            await self.notify(tx, user, SIGN_IN_NOTICE, actor=user.login, origin=origin)

    async def notify(
        self,
        tx: Transaction,
        user: "User",
        text: AccountText,
        *,
        actor: str,
        origin: RequestOrigin | None = None,
        **values: Any,
    ) -> None:
        """Notify a user at their current address of a change: what changed, when, by whom and from where."""
        if user.address is None:
            return
        parts = [origin.time, origin.address, origin.browser] if origin is not None else [utc_text(self._clock.now())]
        if actor != user.login:
            parts.append(lazy_gettext("by {actor}", actor=describe_actor(actor)))
        await self.send(
            tx,
            user.address,
            text,
            f"{self.public_url}{text.path}",
            tenant_id=user.tenant_id,
            language=user.language,
            login=user.login,
            event=lazy_join(", ", parts),
            **values,
        )

    async def send(
        self,
        tx: Transaction,
        to: str,
        text: AccountText,
        link: str,
        *,
        tenant_id: int | None,
        language: str | None,
        lasts: Instant = DAY,
        **values: Any,
    ) -> None:
        """Accept an email of the user's tenant, or of the first one. A link with a token is stored encrypted.

        Its language is the user's choice, or else the language of the page, or else that of the installation.
        """
        now, is_secret = self._clock.now(), "token=" in link
        chosen = None if language is not None else catalogue_of_page()
        with using(chosen or load_catalogue(language or self._language)):
            body = text.body.format(installation=self.public_url, **values)
            subject, button, note = str(text.subject), str(text.button), str(text.note)
        message = await write_system_email(
            tx,
            self._render,
            SystemEmail(body, button, SEALED_LINK_MARK if is_secret else link, note),
            tenant_id=tenant_id or await _first_tenant(tx),
            to=to,
            subject=subject,
            prefix=ACCOUNT_PREFIX,
            now=now,
            expires_at=now + lasts,
            sealed_link=await self._database.secret_box.encrypt(tx, link) if is_secret else None,
        )
        await accept(tx, [message], now)


async def _first_tenant(tx: Transaction) -> int:
    rows = await tx.execute(select(tenants.c.id).order_by(tenants.c.id).limit(1))
    return int(rows[0].id)
