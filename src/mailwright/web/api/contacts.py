"""Contacts over HTTP: who is written to, who may not be, and why."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from mailwright.audience import contacts, erasure, lists, personal_data, segments
from mailwright.audience import export as exporting
from mailwright.audience.export import ExportSelection
from mailwright.audience.status import ContactStatus, ContactStatusService
from mailwright.domain.clock import isoformat
from mailwright.schemas import answers
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.sources.api.requests import RequestModel, parse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_files, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/contacts", tags=["contacts"])


class ContactPage(Page):
    status: Annotated[ContactStatus | None, Field(description="Only those who stand so.")] = None


ContactQuery = Annotated[ContactPage, Query()]


class ContactRequest(RequestModel):
    """What is told of a person."""

    name: Annotated[str, Field(max_length=200)] | None = None
    locale: Annotated[str, Field(max_length=35)] | None = None
    timezone: Annotated[str, Field(max_length=100)] | None = None
    attributes: dict[str, Any] | None = None
    tags: Annotated[list[str], Field(max_length=50)] | None = None


class ExportQuery(RequestModel):
    format: Annotated[Literal["csv", "jsonl"], Field(description="CSV, or JSON lines.")] = "csv"
    list_key: Annotated[str | None, Field(max_length=63, description="Only who is on it.")] = None
    segment_key: Annotated[str | None, Field(max_length=63, description="Only who is in it.")] = None


_EXPORTS = {
    "csv": (exporting.as_csv, "text/csv; charset=utf-8"),
    "jsonl": (exporting.as_json_lines, "application/jsonl"),
}
_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.ContactListResponse}))
async def list_contacts(parts: Parts, caller: CallerDep, page: ContactQuery) -> Response:
    """The latest first."""
    before = decode_cursor("contact", page.cursor)[0] if page.cursor is not None else contacts.NEWEST
    found = await contacts.list_page(
        parts.database, caller.tenant_id, limit=page.limit, status=page.status, before=before
    )
    following = encode_cursor("contact", found[-1].id) if len(found) == page.limit else None
    return json_response({"contacts": [answers.contact(person) for person in found], "nextCursor": following})


@router.get("/export", responses=describe_files(("text/csv", "application/jsonl"), HTTPStatus.NOT_FOUND))
async def export(parts: Parts, caller: CallerDep, wanted: Annotated[ExportQuery, Query()]) -> Response:
    """People with lists, tags and attributes, in the order of addresses. An import takes the CSV back as it is."""
    if wanted.list_key is not None:
        async with parts.database.read() as tx:
            await lists.require(tx, caller.tenant_id, wanted.list_key)
    asked = None
    if wanted.segment_key is not None:
        asked = (await segments.find(parts.database, caller.tenant_id, wanted.segment_key)).filter
    people = ExportSelection(caller.tenant_id, wanted.list_key, asked)
    make, kind = _EXPORTS[wanted.format]
    return StreamingResponse(make(parts.database, people, parts.clock.now()), media_type=kind)


# An address may hold a slash before its @.
@router.get(
    "/{email:path}/data",
    responses=describe_responses({HTTPStatus.OK: None}, HTTPStatus.NOT_FOUND),
)
async def data(email: str, parts: Parts, caller: CallerDep) -> Response:
    """Everything that is known of a person, mails and all, to be handed to them."""
    return json_response(await personal_data.export_personal_data(parts.database, caller.tenant_id, email))


@router.get(
    "/{email:path}/history",
    responses=describe_responses({HTTPStatus.OK: None}, HTTPStatus.NOT_FOUND),
)
async def history(email: str, parts: Parts, caller: CallerDep) -> Response:
    """What happened with a person, the latest first: lists, status, and every step of their latest mails."""
    found = await personal_data.history(parts.database, caller.tenant_id, email)
    return json_response(
        {"history": [{"at": isoformat(each.at), "what": each.what, "detail": each.detail} for each in found]}
    )


@router.post(
    "/{email:path}/activate",
    responses=describe_responses({HTTPStatus.OK: answers.ContactResponse}, HTTPStatus.NOT_FOUND),
)
async def activate(email: str, parts: Parts, caller: CallerDep) -> Response:
    """Writes to a person again who bounced, complained or left all bulk mail. Lists that they left stay left."""
    await ContactStatusService(parts.database, parts.clock).activate(caller.tenant_id, email, source="api", actor="api")
    return json_response(answers.portrait(await contacts.load_details(parts.database, caller.tenant_id, email)))


@router.put(
    "/{email:path}",
    openapi_extra=describe_body(ContactRequest),
    responses=describe_responses({HTTPStatus.OK: answers.ContactResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def put(request: Request, email: str, parts: Parts, caller: CallerDep) -> Response:
    """Tells of a person, who becomes a contact if not known yet. What is not named stays; an attribute that is null is
    taken away. Whether they may be written to is not changed by this."""
    wanted = parse(ContactRequest, await read_json(request))
    change = contacts.ContactChange(wanted.name, wanted.locale, wanted.timezone, wanted.attributes, wanted.tags)
    await contacts.put(parts.database, parts.clock, caller.tenant_id, email, change)
    return json_response(answers.portrait(await contacts.load_details(parts.database, caller.tenant_id, email)))


@router.delete(
    "/{email:path}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def erase(email: str, parts: Parts, caller: CallerDep) -> Response:
    """Erases all that tells who the person is, also in mails that were sent. The address is kept only as one that gets
    no bulk mail, so that no import writes to them again."""
    folder = parts.imports_folder
    await erasure.erase(parts.database, parts.clock, caller.tenant_id, email, actor="api", imports_folder=folder)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get(
    "/{email:path}",
    responses=describe_responses({HTTPStatus.OK: answers.ContactResponse}, HTTPStatus.NOT_FOUND),
)
async def show(email: str, parts: Parts, caller: CallerDep) -> Response:
    """A person's status, lists, suppressions and latest mails, by any spelling of the address."""
    return json_response(answers.portrait(await contacts.load_details(parts.database, caller.tenant_id, email)))
