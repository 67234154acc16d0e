"""HTTP routes of sequences."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.schemas.sequences import (
    EnrolmentListResponse,
    EnrolmentPage,
    ReadySequenceListResponse,
    SequenceDetailResponse,
    SequenceEnrolRequest,
    SequenceEnrolResponse,
    SequenceListResponse,
    SequencePublishRequest,
    SequencePublishResponse,
    SequenceRehearsalResponse,
    SequenceRehearseRequest,
    SequenceRemoveRequest,
    SequenceRequest,
    SequenceResponse,
    SequenceResumeRequest,
    SequenceResumeResponse,
    SequenceRetryRequest,
    SequenceRetryResponse,
    SequenceUpdateRequest,
    enrolment_response,
    publish_response,
    ready_list_response,
    rehearsal_response,
    sequence_detail_response,
    sequence_response,
)
from mailwright.sources.api.validation import parse
from mailwright.sources.sequences.publish import Received
from mailwright.sources.sequences.ready import ReadySequences
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireDefaultSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/sequences", tags=["sequences"], dependencies=[RequireDefaultSender])

_CHANGE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS)


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: SequenceListResponse}))
async def list_sequences(engine: EngineDep, caller: CallerDep) -> Response:
    """List the sequences, newest first."""
    found = await engine.sequences.list_all(caller.tenant_id)
    return json_response(SequenceListResponse(sequences=[sequence_response(each) for each in found]))


@router.post(
    "",
    scope=Scope.PROPOSE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(SequenceRequest),
    responses=describe_responses({HTTPStatus.CREATED: SequenceResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def create(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Create a draft from a document, or from a ready-made sequence with its templates.

    Nobody enters before it is published.

    The scope `propose` creates drafts from a document; a ready-made sequence also creates templates and segments, so it
    needs `manage`.
    """
    wanted = parse(SequenceRequest, await read_json(request))
    if wanted.ready is not None:
        caller.require(Scope.MANAGE)
        ready = ReadySequences(engine.database, engine.clock, engine.templates, engine.sequences)
        created = await ready.create(caller.tenant_id, wanted.ready, list_key=wanted.list, actor=actor_of(caller))
    else:
        created = await engine.sequences.create(caller.tenant_id, wanted.document, actor=actor_of(caller))
    return json_response(sequence_response(created), HTTPStatus.CREATED)


@router.get("/ready", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ReadySequenceListResponse}))
async def list_ready_made(caller: CallerDep) -> Response:
    """List the ready-made sequences, with their documents, templates and segments."""
    return json_response(ready_list_response())


@router.get(
    "/{sequenceId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: SequenceDetailResponse}, HTTPStatus.NOT_FOUND),
)
async def show(sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a sequence with its draft and the number of people at each step."""
    found = await engine.sequences.find(caller.tenant_id, sequenceId)
    return json_response(sequence_detail_response(found, await engine.sequences.counts(found)))


@router.put(
    "/{sequenceId}",
    scope=Scope.PROPOSE,
    openapi_extra=describe_body(SequenceUpdateRequest),
    responses=describe_responses({HTTPStatus.OK: SequenceResponse}, *_CHANGE),
)
async def edit(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Replace the draft. People in the sequence are not affected until it is published.

    The scope `propose` replaces only drafts that were never published, that a key of the same name created and that
    nobody else has changed.
    """
    wanted = parse(SequenceUpdateRequest, await read_json(request))
    changed = await engine.sequences.edit(
        caller.tenant_id,
        sequenceId,
        wanted.document,
        revision=wanted.revision,
        actor=actor_of(caller),
        must_be_own=not caller.allows(Scope.MANAGE),
    )
    return json_response(sequence_response(changed))


@router.delete(
    "/{sequenceId}",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove(sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a draft that was never published. Any other sequence is archived, which ends it for everyone in it."""
    await engine.sequences.remove(caller.tenant_id, sequenceId, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{sequenceId}/publish",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SequencePublishRequest),
    responses=describe_responses({HTTPStatus.OK: SequencePublishResponse}, *_CHANGE),
)
async def publish(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Publish the draft. `dryRun` only shows who stays, who moves, whose run ends and who is overdue."""
    wanted = parse(SequencePublishRequest, await read_json(request))
    if wanted.dry_run:
        plan = await engine.sequences.preview_publish(caller.tenant_id, sequenceId)
        return json_response(publish_response(plan, None, is_published=False))
    sequence, plan = await engine.sequences.publish(
        caller.tenant_id,
        sequenceId,
        revision=wanted.revision,
        overdue=wanted.choice,
        received=Received(wanted.received),
        actor=actor_of(caller),
    )
    return json_response(publish_response(plan, sequence.version, is_published=True))


@router.post(
    "/{sequenceId}/pause",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: SequenceResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def pause(sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Stop running steps, and hold unsent emails. Everyone keeps their place, and new people still enter."""
    return json_response(
        sequence_response(await engine.sequences.pause(caller.tenant_id, sequenceId, actor=actor_of(caller)))
    )


@router.post(
    "/{sequenceId}/resume",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SequenceResumeRequest),
    responses=describe_responses({HTTPStatus.OK: SequenceResumeResponse}, *_CHANGE),
)
async def resume(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Run steps again. `dryRun` only counts the people whose next step or unsent email is overdue."""
    wanted = parse(SequenceResumeRequest, await read_json(request))
    if wanted.dry_run:
        sequence = await engine.sequences.find(caller.tenant_id, sequenceId)
        late = await engine.sequences.count_overdue(caller.tenant_id, sequenceId)
        return json_response(SequenceResumeResponse(status=sequence.status.value, overdue=late))
    sequence, late = await engine.sequences.resume(
        caller.tenant_id, sequenceId, overdue=wanted.choice, actor=actor_of(caller)
    )
    return json_response(SequenceResumeResponse(status=sequence.status.value, overdue=late))


@router.post(
    "/{sequenceId}/enrol",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SequenceEnrolRequest),
    responses=describe_responses({HTTPStatus.OK: SequenceEnrolResponse}, *_CHANGE),
)
async def enrol(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Enrol people: addresses, or everyone on a list or in a segment. The re-entry rule applies."""
    wanted = parse(SequenceEnrolRequest, await read_json(request))
    result = await engine.sequences.enrolments.enrol(
        caller.tenant_id, sequenceId, wanted.people, actor=actor_of(caller)
    )
    return json_response(SequenceEnrolResponse.model_validate(result))


@router.get(
    "/{sequenceId}/enrolments",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: EnrolmentListResponse}, HTTPStatus.NOT_FOUND),
)
async def enrolments(
    sequenceId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    page: Annotated[EnrolmentPage, Query()],
) -> Response:
    """List who is or was in the sequence, newest first."""
    found = await engine.sequences.enrolments.list_page(
        caller.tenant_id, sequenceId, limit=page.limit, before=page.before("enrolment"), state=page.state
    )
    following = page.next_cursor("enrolment", [each.id for each in found])
    listed = [enrolment_response(each) for each in found]
    return json_response(EnrolmentListResponse(enrolments=listed, next_cursor=following))


@router.post(
    "/{sequenceId}/retry",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SequenceRetryRequest),
    responses=describe_responses({HTTPStatus.OK: SequenceRetryResponse}, *_CHANGE),
)
async def retry(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Run failed steps again, or skip their emails."""
    wanted = parse(SequenceRetryRequest, await read_json(request))
    people = await engine.sequences.enrolments.retry(
        caller.tenant_id, sequenceId, email=wanted.email, skips=wanted.skip, actor=actor_of(caller)
    )
    return json_response(SequenceRetryResponse(people=people))


@router.post(
    "/{sequenceId}/remove",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    openapi_extra=describe_body(SequenceRemoveRequest),
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, *_CHANGE),
)
async def remove_person(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Take a person out of the sequence, and cancel its messages to them that are not sent yet."""
    wanted = parse(SequenceRemoveRequest, await read_json(request))
    await engine.sequences.enrolments.remove(caller.tenant_id, sequenceId, wanted.email, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{sequenceId}/rehearse",
    scope=Scope.READ,
    openapi_extra=describe_body(SequenceRehearseRequest),
    responses=describe_responses({HTTPStatus.OK: SequenceRehearsalResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def rehearse(request: Request, sequenceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Run the draft on a virtual clock: emails of the next days by step. Nothing is sent or changed."""
    wanted = parse(SequenceRehearseRequest, await read_json(request))
    result = await engine.sequences.rehearsals.rehearse(
        caller.tenant_id, sequenceId, people=wanted.people, days=wanted.days
    )
    return json_response(rehearsal_response(result))
