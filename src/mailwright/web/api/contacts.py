"""HTTP routes of contacts."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.audience import contacts, erasure, lists, personal_data, segments
from mailwright.audience import export as exporting
from mailwright.audience.erasure_state import find_erasure
from mailwright.audience.export import ExportSelection
from mailwright.audience.snooze import snooze as set_pause
from mailwright.audience.status import ContactStatusService
from mailwright.outbox.audit_log import API
from mailwright.schemas.contacts import (
    ContactHistoryResponse,
    ContactListResponse,
    ContactPage,
    ContactRequest,
    ContactResponse,
    ErasureResponse,
    ExportQuery,
    SnoozeRequest,
    contact_response,
    erasure_response,
)
from mailwright.schemas.sequences import SequenceRunListResponse, run_list_response
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_files, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/contacts", tags=["contacts"])

_EXPORTS = {
    "csv": (exporting.export_csv, "text/csv; charset=utf-8"),
    "jsonl": (exporting.export_json_lines, "application/jsonl"),
}


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ContactListResponse}))
async def list_contacts(engine: EngineDep, caller: CallerDep, page: Annotated[ContactPage, Query()]) -> Response:
    """List the contacts, latest first."""
    found = await contacts.list_page(
        engine.database, caller.tenant_id, limit=page.limit, status=page.status, before=page.before("contact")
    )
    next_cursor = page.next_cursor("contact", [contact.id for contact in found])
    return json_response(ContactListResponse(contacts=found, next_cursor=next_cursor))


@router.get(
    "/export", scope=Scope.READ, responses=describe_files(("text/csv", "application/jsonl"), HTTPStatus.NOT_FOUND)
)
async def export(engine: EngineDep, caller: CallerDep, wanted: Annotated[ExportQuery, Query()]) -> Response:
    """Export contacts with lists, tags and attributes, by address. The CSV can be imported unchanged."""
    if wanted.list_key is not None:
        async with engine.database.read() as tx:
            await lists.require(tx, caller.tenant_id, wanted.list_key)
    filter_ = None
    if wanted.segment_key is not None:
        filter_ = (await segments.find(engine.database, caller.tenant_id, wanted.segment_key)).filter
    selection = ExportSelection(caller.tenant_id, wanted.list_key, filter_)
    export_as, media_type = _EXPORTS[wanted.format]
    return StreamingResponse(export_as(engine.database, selection, engine.clock.now()), media_type=media_type)


# An address can contain a slash before its @, so these routes match a whole path.
@router.get(
    "/{email:path}/data",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: None}, HTTPStatus.NOT_FOUND),
)
async def data(email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Export all personal data of a contact, including their messages, for a data access request."""
    return json_response(await personal_data.export_personal_data(engine.database, caller.tenant_id, email))


@router.get(
    "/{email:path}/history",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: None}, HTTPStatus.NOT_FOUND),
)
async def history(email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Show the history of a contact, latest first: subscriptions, status, and the events of the latest messages."""
    entries = await personal_data.load_history(engine.database, caller.tenant_id, email)
    return json_response(ContactHistoryResponse(history=entries))


@router.get(
    "/{email:path}/sequences",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: SequenceRunListResponse}, HTTPStatus.NOT_FOUND),
)
async def sequences(
    email: str,
    engine: EngineDep,
    caller: CallerDep,
    sequence_id: Annotated[str | None, Query(alias="sequenceId", max_length=63)] = None,
) -> Response:
    """Explain the contact's runs through sequences: why they got an email or not, what comes next and when.

    With `sequenceId`, explain one sequence, also if the contact never entered it: which rule keeps them out.
    """
    explanations = engine.sequences.explanations
    if sequence_id is None:
        found = await explanations.of_person(caller.tenant_id, email)
    else:
        found = await explanations.of_sequence(caller.tenant_id, sequence_id, email)
    return json_response(run_list_response(found, engine.clock.now()))


@router.post(
    "/{email:path}/activate",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: ContactResponse}, HTTPStatus.NOT_FOUND),
)
async def activate(email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Activate a contact who bounced, complained or unsubscribed from all bulk messages.

    Lists that the contact unsubscribed from stay unsubscribed.
    """
    status = ContactStatusService(engine.database, engine.clock)
    await status.activate(caller.tenant_id, email, source="api", actor=actor_of(caller))
    return await _contact(engine, caller, email)


@router.post(
    "/{email:path}/snooze",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SnoozeRequest),
    responses=describe_responses({HTTPStatus.OK: ContactResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def snooze(request: Request, email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Pause bulk messages to a contact until a time, or end the pause. Transactional messages are still sent."""
    wanted = parse(SnoozeRequest, await read_json(request))
    contact = await contacts.find_by_email(engine.database, caller.tenant_id, email)
    await set_pause(
        engine.database, engine.clock, caller.tenant_id, contact.email, wanted.until, actor=actor_of(caller)
    )
    return await _contact(engine, caller, email)


@router.get(
    "/{email:path}/erasure",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: ErasureResponse}, HTTPStatus.NOT_FOUND),
)
async def show_erasure(email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Show whether the data of an address is being erased or was erased."""
    found = await find_erasure(engine.database, caller.tenant_id, email)
    return json_response(erasure_response(found))


@router.put(
    "/{email:path}",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(ContactRequest),
    responses=describe_responses({HTTPStatus.OK: ContactResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def put(request: Request, email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Create or change a contact. Fields that are left out keep their value; null removes an attribute.

    Status, subscriptions and suppressions do not change.
    """
    wanted = parse(ContactRequest, await read_json(request))
    await contacts.put(engine.database, engine.clock, caller.tenant_id, email, wanted.change(API, engine.clock.now()))
    return await _contact(engine, caller, email)


@router.delete(
    "/{email:path}",
    scope=Scope.MANAGE,
    responses=describe_responses(
        {HTTPStatus.OK: ErasureResponse, HTTPStatus.ACCEPTED: ErasureResponse}, HTTPStatus.NOT_FOUND
    ),
)
async def erase(email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Erase the personal data of a contact, including in sent messages.

    Nothing is sent to the address from now on. While a message to it has no result, the response is 202 with the state
    `erasing`, and a worker deletes the data later. The address stays suppressed for bulk messages, so that a later
    import does not send to it.
    """
    result = await erasure.erase(
        engine.database,
        engine.clock,
        caller.tenant_id,
        email,
        actor=actor_of(caller),
        imports_folder=engine.imports_folder,
        record=engine.erasure_record,
    )
    status = HTTPStatus.OK if result.is_finished else HTTPStatus.ACCEPTED
    return json_response(erasure_response(result), status)


@router.get(
    "/{email:path}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: ContactResponse}, HTTPStatus.NOT_FOUND),
)
async def show(email: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Show a contact's status, lists, suppressions and latest messages. The address is normalized first."""
    return await _contact(engine, caller, email)


async def _contact(engine: EngineDep, caller: CallerDep, email: str) -> Response:
    return json_response(contact_response(await contacts.load_details(engine.database, caller.tenant_id, email)))
