"""The audit log: who did what, recorded in the transaction of the action."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Required, TypedDict, Unpack

import orjson
from sqlalchemy import ColumnElement, insert, literal, or_, select

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.expressions import json_texts, lower_ascii, position
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import audit_log

# The actor of commands on the machine itself.
CONSOLE = "console"
# The actor of requests with an API key.
API = "api"
SYSTEM = "system"
# The actor of changes that the rows of a file make.
IMPORT: Final = "import"
# The detail of pauses after a restore.
RESTORED: Final = {"because": "the database was restored"}
RECORD_AUDIT_ENTRIES: Final = statement(__package__, "record_audit_entries")
_NEWEST: Final = 2**63 - 1
_EXPORT_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: int
    tenant_id: int | None
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    created_at: Instant


async def record(
    tx: Transaction,
    now: Instant,
    *,
    actor: str,
    action: str,
    subject: str,
    tenant_id: int | None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    await tx.execute(
        insert(audit_log).values(
            tenant_id=tenant_id,
            actor=actor,
            action=action,
            subject=subject,
            detail=orjson.dumps(detail or {}).decode(),
            created_at=now,
        )
    )


async def record_entries(
    tx: Runner,
    now: Instant,
    entries: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    actor: str,
    action: str,
    tenant_id: int,
) -> None:
    """Record one action on many subjects, each with its details."""
    rows = [(subject, orjson.dumps(detail).decode()) for subject, detail in entries]
    if rows:
        place = {"tenant_id": tenant_id, "actor": actor, "action": action, "now": now}
        await tx.count(RECORD_AUDIT_ENTRIES, entries=rows, **place)


def describe_actor(actor: str) -> str:
    """Return who or what acted, for a sentence: the name of a user, `the API (key shop)` or `the command line`."""
    kind, separator, name = actor.partition(":")
    if kind == CONSOLE:
        return lazy_gettext("the command line")
    if kind == API:
        return lazy_gettext("the API (key {name})", name=name) if separator else lazy_gettext("the API")
    return actor


class SearchedWord(NamedTuple):
    """A word of a search, and the actions and actors whose texts contain it in the reader's language.

    The actor `api:` is any API key.
    """

    word: str
    actions: Sequence[str]
    actors: Sequence[str]


class AuditFilter(TypedDict, total=False):
    """Which entries to list. If `tenant_id` is None, those of all tenants.

    `actor` is a login, `console`, `api` for all API keys, or `api:` with the name of one. `action` is an action such as
    `campaign.start`, or its beginning for all such actions: `campaign`, `user`. An entry must contain all `words`.
    """

    tenant_id: Required[int | None]
    subject: str | None
    actor: str | None
    action: str | None
    words: Sequence[SearchedWord]


async def list_entries(
    database: Readable, *, limit: int, before: int = _NEWEST, **wanted: Unpack[AuditFilter]
) -> list[AuditEntry]:
    """List entries, newest first."""
    conditions = [audit_log.c.id < before, *_conditions(wanted)]
    async with database.read() as tx:
        rows = await tx.execute(select(audit_log).where(*conditions).order_by(audit_log.c.id.desc()).limit(limit))
    return [AuditEntry(**{**row._mapping, "detail": orjson.loads(row.detail)}) for row in rows]


async def all_entries(database: Readable, **wanted: Unpack[AuditFilter]) -> AsyncIterator[AuditEntry]:
    """Yield entries, newest first, for exports."""
    before = _NEWEST
    while found := await list_entries(database, limit=_EXPORT_BATCH, before=before, **wanted):
        for entry in found:
            yield entry
        before = found[-1].id


def _conditions(wanted: AuditFilter) -> Iterator[ColumnElement[bool]]:
    if wanted["tenant_id"] is not None:
        yield audit_log.c.tenant_id == wanted["tenant_id"]
    if (subject := wanted.get("subject")) is not None:
        yield audit_log.c.subject == subject
    if (actor := wanted.get("actor")) is not None:
        yield _is_actor(actor)
    if (action := wanted.get("action")) is not None:
        beginnings = (audit_log.c.action.startswith(f"{action}{end}", autoescape=True) for end in "._")
        yield or_(audit_log.c.action == action, *beginnings)
    for word in wanted.get("words", ()):
        stored = (audit_log.c.actor, audit_log.c.subject, json_texts(audit_log.c.detail))
        yield or_(
            audit_log.c.action.in_(word.actions),
            *(_is_actor(each) for each in word.actors),
            *(_contains(column, spelling) for column in stored for spelling in _spellings(word.word)),
        )


def _spellings(word: str) -> Iterable[str]:
    """Return the usual spellings of a word, because the engines only find A to Z in either case."""
    return dict.fromkeys((word, word.lower(), word.upper(), word.capitalize())) if not word.isascii() else (word,)


def _contains(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    return position(lower_ascii(column), lower_ascii(literal(text))) > 0


def _is_actor(actor: str) -> ColumnElement[bool]:
    beginning = f"{actor.removesuffix(':')}:"
    return or_(audit_log.c.actor == actor, audit_log.c.actor.startswith(beginning, autoescape=True))
