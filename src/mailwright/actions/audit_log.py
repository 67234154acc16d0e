"""The audit log: the actions of users, API keys and the console."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from mailwright.access.roles import Role
from mailwright.actions.context import Context
from mailwright.actions.declaration import Noun, Table, TwoLines, time_of
from mailwright.outbox.audit_log import list_entries
from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Matching

noun = Noun("audit-log", "The audit log: who did what.", "/v1/audit-log", role=Role.ADMIN)


_Text = Annotated[str, Field(max_length=254), Matching(r"[^\x00]*", "must not contain a NUL character")]


class AuditLogPage(Page):
    subject: Annotated[
        _Text | None, Field(description="Only entries about this subject, for example a campaign id.")
    ] = None
    actor: Annotated[_Text | None, Field(description="Only actions of this user, or of `api` or `console`.")] = None
    action: Annotated[
        _Text | None, Field(description="Only this action, for example campaign.start, or campaign for all of them.")
    ] = None


class AuditEntryResponse(ResponseModel):
    """`actor` is a login, `api` for an API key, or `console` for a command."""

    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    created_at: Time


class AuditEntryListResponse(ResponseModel):
    entries: list[AuditEntryResponse]
    next_cursor: str | None


class AuditLogResponse(ResponseModel):
    """The audit log under the names of earlier versions."""

    deeds: list[AuditEntryResponse]
    next_cursor: str | None


def _details(entry: AuditEntryResponse) -> Iterator[str]:
    yield from (f"{name}: {value}" for name, value in entry.detail.items() if value is not None)


@noun.get(
    command="",
    spans_tenants=True,
    help="List the actions of users, API keys and the console.",
    shown=Table(
        "entries",
        {
            "Time ({zone}) and actor!": lambda each: TwoLines(time_of("created_at")(each), each.actor),
            "Action and subject": lambda each: TwoLines(f"{each.action}  {each.subject}", ", ".join(_details(each))),
        },
        nothing="The audit log is empty.",
    ),
)
async def list_audit_log(at: Context, page: AuditLogPage) -> AuditEntryListResponse:
    """List the audit log, latest first."""
    entries = await list_entries(
        at.database.reader,
        tenant_id=at.owner_id,
        limit=page.limit,
        before=page.before("audit-entry"),
        subject=page.subject,
        actor=page.actor,
        action=page.action,
    )
    following = page.next_cursor("audit-entry", [entry.id for entry in entries])
    return AuditEntryListResponse(entries=entries, next_cursor=following)


@noun.get("/v1/journal", deprecated=True)
async def show(at: Context, page: AuditLogPage) -> AuditLogResponse:
    """List the audit log. Use `GET /v1/audit-log`, which calls the entries `entries`."""
    found = await list_audit_log(at, page)
    return AuditLogResponse(deeds=found.entries, next_cursor=found.next_cursor)
