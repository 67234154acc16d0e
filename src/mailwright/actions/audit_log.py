"""The audit log: the actions of users, API keys and the console."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any, Final

import orjson
from pydantic import Field

from mailwright.access.roles import Role
from mailwright.actions.context import Context
from mailwright.actions.declaration import CsvFile, JsonLinesFile, Noun, Option, Table, TwoLines, time_of
from mailwright.audience.csv_cells import csv_parts
from mailwright.domain.clock import isoformat
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import AuditEntry, AuditFilter, all_entries, list_entries
from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Matching, RequestModel
from mailwright.texts.audit_log import audit_sentence, searched_words

noun = Noun("audit-log", "The audit log: who did what.", "/v1/audit-log", role=Role.ADMIN)

TenantNames = Mapping[int | None, str]

CSV_COLUMNS: Final = ("time", "tenant", "sentence", "actor", "action", "subject", "details")

_Text = Annotated[str, Field(max_length=254), Matching(r"[^\x00]*", "must not contain a NUL character")]


class AuditLogQuery(RequestModel):
    search: Annotated[
        _Text | None,
        Option("--search", metavar="WORDS"),
        Field(description="Only entries whose sentence, subject or details contain these words."),
    ] = None
    subject: Annotated[
        _Text | None, Field(description="Only entries about this subject, for example a campaign id.")
    ] = None
    actor: Annotated[_Text | None, Field(description="Only actions of this user, or of `api` or `console`.")] = None
    action: Annotated[
        _Text | None, Field(description="Only this action, for example campaign.start, or campaign for all of them.")
    ] = None

    def entries_of(self, tenant_id: int | None) -> AuditFilter:
        return AuditFilter(
            tenant_id=tenant_id,
            subject=self.subject or None,
            actor=self.actor or None,
            action=self.action or None,
            words=searched_words(self.search or ""),
        )


class AuditLogPage(AuditLogQuery, Page):
    """A page of the audit log."""


class AuditEntryResponse(ResponseModel):
    """`actor` is a login, `api` for an API key, or `console` for a command. `sentence` says what happened.

    `tenant` is null if the entry belongs to no tenant.
    """

    tenant: str | None
    actor: str
    action: str
    subject: str
    sentence: str
    detail: dict[str, Any]
    created_at: Time


class AuditEntryListResponse(ResponseModel):
    entries: list[AuditEntryResponse]
    next_cursor: str | None


class AuditLogResponse(ResponseModel):
    """The audit log under the names of earlier versions."""

    deeds: list[AuditEntryResponse]
    next_cursor: str | None


def audit_csv(entries: AsyncIterator[AuditEntry], names: TenantNames) -> AsyncIterator[str]:
    def cells(each: AuditEntry) -> Iterator[str | None]:
        yield isoformat(each.created_at)
        yield names.get(each.tenant_id)
        yield audit_sentence(each)
        yield from (each.actor, each.action, each.subject, _json(each.detail))

    return csv_parts(CSV_COLUMNS, ([*cells(each)] async for each in entries))


async def audit_json_lines(entries: AsyncIterator[AuditEntry], names: TenantNames) -> AsyncIterator[str]:
    async for each in entries:
        yield f"{_json(_response(each, names).to_dict())}\n"


@noun.get("/v1/audit-log/entries.csv")
async def download_audit_log(at: Context, query: AuditLogQuery) -> CsvFile:
    """Download the audit log as CSV, latest first. Cells that a spreadsheet would run as a formula are escaped."""
    entries = all_entries(at.database.reader, **query.entries_of(at.owner_id))
    return CsvFile(audit_csv(entries, await _tenant_names(at)), "audit-log.csv")


@noun.get("/v1/audit-log/entries.jsonl")
async def download_audit_log_as_json(at: Context, query: AuditLogQuery) -> JsonLinesFile:
    """Download the audit log, latest first, with a JSON object on each line."""
    entries = all_entries(at.database.reader, **query.entries_of(at.owner_id))
    return JsonLinesFile(audit_json_lines(entries, await _tenant_names(at)), "audit-log.jsonl")


@noun.get(
    command="",
    spans_tenants=True,
    csv=download_audit_log,
    help="List the actions of users, API keys and the console, or write them as CSV.",
    shown=Table(
        "entries",
        {
            "Time ({zone})!": time_of("created_at"),
            "What happened": lambda each: TwoLines(each.sentence, ", ".join(_details(each))),
        },
        nothing="No entries. If you gave no filter, nobody has changed anything yet.",
    ),
)
async def list_audit_log(at: Context, page: AuditLogPage) -> AuditEntryListResponse:
    """List the audit log, latest first."""
    entries = await list_entries(
        at.database.reader, limit=page.limit, before=page.before("audit-entry"), **page.entries_of(at.owner_id)
    )
    following = page.next_cursor("audit-entry", [entry.id for entry in entries])
    names = await _tenant_names(at)
    return AuditEntryListResponse(entries=[_response(entry, names) for entry in entries], next_cursor=following)


@noun.get("/v1/journal", deprecated=True)
async def show(at: Context, page: AuditLogPage) -> AuditLogResponse:
    """List the audit log. Use `GET /v1/audit-log`, which calls the entries `entries`."""
    found = await list_audit_log(at, page)
    return AuditLogResponse(deeds=found.entries, next_cursor=found.next_cursor)


async def _tenant_names(at: Context) -> TenantNames:
    if at.owner_id is not None:
        return {at.owner_id: at.caller.tenant}
    return {each.id: each.name for each in await tenants.list_all(at.database)}


def _response(entry: AuditEntry, names: TenantNames) -> AuditEntryResponse:
    values = {name: getattr(entry, name) for name in ("actor", "action", "subject", "detail", "created_at")}
    return AuditEntryResponse(tenant=names.get(entry.tenant_id), sentence=audit_sentence(entry), **values)


def _details(entry: AuditEntryResponse) -> Iterator[str]:
    if entry.tenant not in (None, tenants.DEFAULT):
        yield f"tenant: {entry.tenant}"
    yield from (f"{name}: {value}" for name, value in entry.detail.items() if value is not None and name != "name")


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
