"""Campaigns over HTTP: written, tried, started, watched and ended. Every deed is in the journal."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.api_keys import Caller
from mailwright.content.presend_checks import PresendContext
from mailwright.schemas import campaigns as answers
from mailwright.schemas.campaign_requests import (
    CampaignDuplicateRequest,
    CampaignExtendRequest,
    CampaignRefused,
    CampaignRequest,
    CampaignTestRequest,
    CampaignWinnerRequest,
    parse,
)
from mailwright.schemas.paging import PageQuery, decode_cursor, encode_cursor
from mailwright.sources.campaigns import progress, report
from mailwright.sources.campaigns.campaigns import Actor, Campaign
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.failed_recipients import list_failed
from mailwright.sources.campaigns.snapshot import CampaignCheck, CampaignNotStartable, check_campaign
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_files, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import ApiParts, Parts

router = APIRouter(prefix="/v1/campaigns", tags=["campaigns"])

# How the journal names whoever has a tenant's key.
ACTOR = "api"

_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
_ACTED = describe_responses({HTTPStatus.OK: answers.CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
_NEWEST = 2**63 - 1


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.CampaignListResponse}))
async def list_campaigns(parts: Parts, caller: CallerDep, page: PageQuery) -> Response:
    """The latest first."""
    before = decode_cursor("campaign", page.cursor)[0] if page.cursor is not None else _NEWEST
    found = await parts.campaigns.some(tenant_id=caller.tenant_id, limit=page.limit, before=before)
    async with parts.database.read() as tx:
        line = await progress.list_positions(tx, parts.clock.now(), tenant_id=caller.tenant_id)
    places = {place.campaign_id: place for place in line}
    following = encode_cursor("campaign", found[-1].key) if len(found) == page.limit else None
    lines = [answers.line(each, places.get(each.campaign_id)) for each in found]
    return json_response({"campaigns": lines, "nextCursor": following})


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(CampaignRequest),
    responses=describe_responses({HTTPStatus.CREATED: answers.CampaignResponse}, *_BODY_PROBLEMS),
)
async def create(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """A draft. Whether it can start is asked when it starts, or by its preflight."""
    wanted = parse(CampaignRequest, await read_json(request))
    made = await parts.campaigns.create(_acting(caller), caller.tenant_id, wanted)
    return json_response(await _shown(parts, made), HTTPStatus.CREATED)


@router.get(
    "/{campaignId}", responses=describe_responses({HTTPStatus.OK: answers.CampaignResponse}, HTTPStatus.NOT_FOUND)
)
async def show(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803 - the name in the address
    """What was written down, how far it is, and what holds it."""
    return json_response(await _shown(parts, await _found(parts, caller, campaignId)))


@router.put(
    "/{campaignId}",
    openapi_extra=describe_body(CampaignRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def edit(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Replaces the whole of a draft. What has started is fixed, but for its limits."""
    wanted = parse(CampaignRequest, await read_json(request))
    return json_response(await _shown(parts, await parts.campaigns.edit(_acting(caller), campaignId, wanted)))


@router.post(
    "/{campaignId}/preflight",
    responses=describe_responses({HTTPStatus.OK: answers.CampaignCheckResponse}, HTTPStatus.NOT_FOUND),
)
async def preflight(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """What starting would say, without starting: all that keeps it from that, and what readers would mind."""
    campaign = await _found(parts, caller, campaignId)
    return json_response(answers.preflight(await _examined(parts, campaign)))


@router.post(
    "/{campaignId}/start",
    responses=describe_responses(
        {HTTPStatus.OK: answers.CampaignStartResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def start(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Freezes the content and takes a place in line; a worker then writes to everyone in the audience. It is refused
    with every reason at once."""
    with _told():
        started, warnings = await parts.campaigns.start_and_warn(_acting(caller), campaignId, _facts(parts))
    return json_response({**await _shown(parts, started), "warnings": answers.warnings(warnings)})


@router.post("/{campaignId}/pause", responses=_ACTED)
async def pause(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Nothing more leaves after the batch that is under way. It keeps its place."""
    return json_response(await _shown(parts, await parts.campaigns.pause(_acting(caller), campaignId)))


@router.post("/{campaignId}/resume", responses=_ACTED)
async def resume(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Goes on where it was."""
    return json_response(await _shown(parts, await parts.campaigns.resume(_acting(caller), campaignId)))


@router.post("/{campaignId}/cancel", responses=_ACTED)
async def cancel(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """What was not sent is not sent any more; what was, stays in the report."""
    return json_response(await _shown(parts, await parts.campaigns.cancel(_acting(caller), campaignId)))


@router.post(
    "/{campaignId}/retry-failed",
    responses=describe_responses(
        {HTTPStatus.OK: answers.CampaignRetryResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def retry_failed(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Everyone whose mail failed gets all attempts again."""
    campaign, count = await parts.campaigns.retry_failed(_acting(caller), campaignId)
    return json_response({**await _shown(parts, campaign), "retried": count})


@router.post("/{campaignId}/accept-failures", responses=_ACTED)
async def accept_failures(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """The campaign counts as sent, without those whom it did not reach."""
    return json_response(await _shown(parts, await parts.campaigns.accept_failures(_acting(caller), campaignId)))


@router.post(
    "/{campaignId}/duplicate",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(CampaignDuplicateRequest),
    responses=describe_responses({HTTPStatus.CREATED: answers.CampaignResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def duplicate(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """A draft with the same content and audience, to be changed and started by itself."""
    wanted = parse(CampaignDuplicateRequest, await read_json(request))
    made = await parts.campaigns.duplicate(_acting(caller), campaignId, wanted.name)
    return json_response(await _shown(parts, made), HTTPStatus.CREATED)


@router.post(
    "/{campaignId}/test",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(CampaignTestRequest),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: answers.CampaignTestResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS
    ),
)
async def try_out(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """The campaign's mail to a few addresses, one for each version and address, marked as a test and not counted."""
    wanted = parse(CampaignTestRequest, await read_json(request))
    with _told():
        mails = await parts.campaigns.test_send(
            _acting(caller), campaignId, wanted.addresses, as_contact=wanted.as_contact
        )
    sent = [{"outboxId": each.outbox_id, "status": each.status} for each in mails]
    return json_response({"mails": sent}, HTTPStatus.ACCEPTED)


@router.post(
    "/{campaignId}/extend",
    openapi_extra=describe_body(CampaignExtendRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.CampaignExtendResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def extend(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Also for whoever has joined since, and for another segment where one is named; nobody gets it twice."""
    wanted = parse(CampaignExtendRequest, await read_json(request))
    campaign, newcomers = await parts.campaigns.extend(_acting(caller), campaignId, segment=wanted.segment)
    return json_response({**await _shown(parts, campaign), "newcomers": newcomers})


@router.post(
    "/{campaignId}/winner",
    openapi_extra=describe_body(CampaignWinnerRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def choose_winner(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Decides an experiment by your own word: the version goes to everyone who has none yet."""
    wanted = parse(CampaignWinnerRequest, await read_json(request))
    chosen = await parts.campaigns.choose_winner(_acting(caller), campaignId, wanted.version)
    return json_response(await _shown(parts, chosen))


@router.put(
    "/{campaignId}/limits",
    openapi_extra=describe_body(CampaignLimits),
    responses=describe_responses(
        {HTTPStatus.OK: answers.CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def edit_limits(request: Request, campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Replaces the campaign's own limits, within one batch also while it is being sent."""
    wanted = parse(CampaignLimits, await read_json(request))
    return json_response(await _shown(parts, await parts.campaigns.edit_limits(_acting(caller), campaignId, wanted)))


@router.get(
    "/{campaignId}/failures",
    responses=describe_responses({HTTPStatus.OK: answers.FailedRecipientListResponse}, HTTPStatus.NOT_FOUND),
)
async def failures(campaignId: str, parts: Parts, caller: CallerDep, page: PageQuery) -> Response:  # noqa: N803
    """Whom it did not reach, and why, in the order of addresses. Whoever left before their turn is not among them."""
    campaign = await _found(parts, caller, campaignId)
    after = decode_cursor("failure", page.cursor)[0] if page.cursor is not None else 0
    async with parts.database.read() as tx:
        place = await progress.find_position(tx, campaign.key, parts.clock.now())
        found = [] if place is None else await list_failed(tx, place.lane, limit=page.limit, after=after)
    following = encode_cursor("failure", found[-1].message_key) if len(found) == page.limit else None
    return json_response({"failures": [answers.failure(each) for each in found], "nextCursor": following})


@router.get("/{campaignId}/report.csv", responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND))
async def report_csv(campaignId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """What became of every recipient's mail, in the order of addresses."""
    campaign = await _found(parts, caller, campaignId)
    lines = answers.report_csv(report.report_rows(parts.database, campaign.key))
    headers = {"Content-Disposition": f'attachment; filename="campaign-{campaign.campaign_id}.csv"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _acting(caller: Caller) -> Actor:
    return Actor(ACTOR, caller.tenant_id)


async def _found(parts: ApiParts, caller: Caller, campaign_id: str) -> Campaign:
    return await parts.campaigns.find(campaign_id, tenant_id=caller.tenant_id)


async def _shown(parts: ApiParts, campaign: Campaign) -> dict[str, Any]:
    async with parts.database.read() as tx:
        place = await progress.find_position(tx, campaign.key, parts.clock.now())
        counted = None if place is None else await progress.count_messages(tx, place)
    return answers.campaign(campaign, place, counted)


async def _examined(parts: ApiParts, campaign: Campaign) -> CampaignCheck:
    return await check_campaign(
        parts.database,
        parts.templates,
        campaign.definition,
        tenant_id=campaign.tenant_id,
        now=parts.clock.now(),
        facts=_facts(parts),
    )


def _facts(parts: ApiParts) -> PresendContext:
    return PresendContext(postal_address=parts.postal_address)


@contextmanager
def _told() -> Iterator[None]:
    """A refusal names each field that is wrong, as a request that breaks its schema does."""
    try:
        yield
    except CampaignNotStartable as error:
        raise CampaignRefused(error) from error
