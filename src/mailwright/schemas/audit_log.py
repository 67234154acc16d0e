"""Models of the audit log."""

from typing import Annotated, Any

from pydantic import Field

from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Matching


class AuditLogPage(Page):
    subject: Annotated[
        Annotated[str, Field(max_length=254), Matching(r"[^\x00]*", "must not contain a NUL character")] | None,
        Field(description="Only entries about this subject, for example a campaign id."),
    ] = None


class AuditEntryResponse(ResponseModel):
    """`actor` is a login, `api` for an API key, or `console` for a command."""

    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    created_at: Time


class AuditLogResponse(ResponseModel):
    deeds: list[AuditEntryResponse]
    next_cursor: str | None
