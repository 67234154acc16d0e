"""HTTP routes of contacts that are not derived: an export is a stream, and runs through sequences need the engine."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.actions.sequences import SequenceRunListResponse, run_list_response
from mailwright.audience import export as exporting
from mailwright.audience import lists, segments
from mailwright.audience.export import ExportSelection
from mailwright.sources.api.fields import RequestModel
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_files, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/contacts", tags=["contacts"])

_EXPORTS = {
    "csv": (exporting.export_csv, "text/csv; charset=utf-8"),
    "jsonl": (exporting.export_json_lines, "application/jsonl"),
}


class ExportQuery(RequestModel):
    format: Annotated[Literal["csv", "jsonl"], Field(description="CSV or JSON lines.")] = "csv"
    list_key: Annotated[str | None, Field(max_length=63, description="Only subscribers of this list.")] = None
    segment_key: Annotated[str | None, Field(max_length=63, description="Only contacts in this segment.")] = None


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
    return StreamingResponse(export_as(engine.database.reader, selection, engine.clock.now()), media_type=media_type)


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
