"""Report sources: systems that report what happened to messages, for example your own mail server, and their
signatures.
"""

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.report import ReportScope
from mailwright.events.outbound.signature import SIGNATURE_HEADER, sign
from mailwright.ops.logs import logger
from mailwright.ops.provider_kinds import KINDS
from mailwright.outbox import audit_log
from mailwright.providers.inbound.rejected_events import ForgedEvent
from mailwright.providers.inbound.webhook_secrets import require_recent
from mailwright.storage.database import Database
from mailwright.storage.secret_box import SecretKeyInvalid
from mailwright.storage.tables import provider_configurations, report_sources, tenants

log = logger(__name__)

# The prefix of secrets, so that secret scanners recognise leaked ones.
PREFIX: Final = "rpsec_"
# How far the time of a request may be from the time of the server, in both directions.
MAX_AGE: Final[Instant] = 5 * MINUTE
# Providers of the installation whose message IDs can be looked up.
PROVIDERS_WITH_IDS: Final = frozenset(kind.name for kind in KINDS.values() if kind.webhook is not None)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,38}[a-z0-9]")
_HEADER: Final = re.compile(r"t=(\d{1,12})((?:,v1=[0-9a-f]{64}){1,4})")


class ReportSourceExists(NotPossibleNow):
    """A report source with this name already exists."""

    code = "REPORT_SOURCE_EXISTS"


@dataclass(frozen=True, slots=True)
class ReportSource:
    """`tenant`: None means that it may report about all tenants. `provider`: None means messages of all providers."""

    name: str
    tenant_id: int | None
    tenant: str | None
    provider: str | None
    created_at: Instant
    created_by: str
    last_used_at: Instant | None

    @property
    def scope(self) -> ReportScope:
        return ReportScope(self.tenant_id, self.provider, needs_own_recipient=True)


class ReportSources:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create(
        self, name: str, *, tenant_id: int | None, provider: str | None, actor: str
    ) -> tuple[ReportSource, str]:
        """Create a source and return its secret, which is stored encrypted and never shown again."""
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                "The name of a report source has 2 to 40 characters: a-z, 0-9 and -, beginning with a letter, for "
                "example postfix-1.",
                field="name",
            )
        now, secret = self._clock.now(), PREFIX + secrets.token_urlsafe(32)
        try:
            async with self._database.write() as tx:
                if provider is not None and provider not in PROVIDERS_WITH_IDS:
                    p = provider_configurations.c
                    if not await tx.execute(select(p.id).where(p.name == provider).with_for_update()):
                        raise InvalidInput(
                            "The provider must be a named provider or one of {known}.",
                            known=", ".join(sorted(PROVIDERS_WITH_IDS)),
                            field="provider",
                        )
                values = {"created_at": now, "created_by": actor, "tenant_id": tenant_id, "provider": provider}
                encrypted = await self._database.secret_box.encrypt(tx, secret)
                await tx.execute(insert(report_sources).values(name=name, secret=encrypted, **values))
                entry = {"actor": actor, "action": "report_source.create", "subject": name}
                await audit_log.record(tx, now, **entry, tenant_id=tenant_id, detail={"provider": provider})
        except IntegrityError as error:
            raise ReportSourceExists("There is already a report source {name}.", field="name", name=name) from error
        [made] = [each for each in await self.list_all() if each.name == name]
        return made, secret

    async def list_all(self) -> list[ReportSource]:
        async with self._database.read() as tx:
            rows = await tx.execute(_QUERY.order_by(report_sources.c.name))
        return [_source(row) for row in rows]

    async def delete(self, name: str, *, actor: str) -> None:
        table, now = report_sources, self._clock.now()
        async with self._database.write() as tx:
            rows = await tx.execute(delete(table).where(table.c.name == name).returning(table.c.tenant_id))
            if not rows:
                raise NotFound("There is no report source {name}.", field="name", name=name[:80])
            tenant_id, action = rows[0].tenant_id, "report_source.delete"
            await audit_log.record(tx, now, actor=actor, action=action, subject=name, tenant_id=tenant_id)

    async def authenticate(self, name: str, headers: Mapping[str, str], body: bytes) -> ReportSource:
        """Return the source if it has signed this body within the last minutes. Otherwise raise `EventRejected`."""
        async with self._database.read() as tx:
            rows = await tx.execute(_QUERY.where(report_sources.c.name == name))
        # An unknown source is refused like a wrong signature, so that nobody can find out which sources exist.
        secret = self._secret(rows[0]) if rows else secrets.token_urlsafe(32)
        timestamp = _check_signature(secret, headers.get(SIGNATURE_HEADER.lower(), ""), body)
        if not rows:
            raise ForgedEvent
        require_recent(timestamp, self._clock.now(), MAX_AGE, max_ahead=MAX_AGE)
        await self._note_use(rows[0])
        return _source(rows[0])

    def _secret(self, row: Any) -> str:
        try:
            return self._database.secret_box.decrypt(row.secret)
        except SecretKeyInvalid as error:
            # Only the log contains the cause, a wrong key. Senders repeat the request, so no report is lost.
            log.error("report_source_unreadable", source=row.name, reason=str(error))
            raise SecretKeyInvalid("Reports cannot be verified at present. Repeat the request later.") from error

    async def _note_use(self, row: Any) -> None:
        """Record the use, at most once per minute."""
        now = self._clock.now()
        if row.last_used_at is None or now - row.last_used_at >= MINUTE:
            async with self._database.write() as tx:
                await tx.execute(update(report_sources).where(report_sources.c.id == row.id).values(last_used_at=now))


_QUERY: Final = select(*report_sources.c, tenants.c.name.label("tenant")).outerjoin(
    tenants, tenants.c.id == report_sources.c.tenant_id
)


def _check_signature(secret: str, header: str, body: bytes) -> str:
    """Check `t=1800000000,v1=…` and return the time."""
    found = _HEADER.fullmatch(header.strip())
    if found is None:
        raise ForgedEvent(
            "The header {signature_header} must look like t=1800000000,v1=… (64 hexadecimal digits).",
            signature_header=SIGNATURE_HEADER,
        )
    expected = sign(secret, int(found[1]), body)
    if not any(hmac.compare_digest(expected, each) for each in found[2].replace(",v1=", " ").split()):
        raise ForgedEvent
    return found[1]


def _source(row: Any) -> ReportSource:
    return ReportSource(
        row.name, row.tenant_id, row.tenant, row.provider, row.created_at, row.created_by, row.last_used_at
    )
