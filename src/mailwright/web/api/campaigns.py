"""HTTP routes of campaigns. The audit log records every action."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.app.wiring import Engine
from mailwright.content.presend_checks import PresendContext
from mailwright.outbox import tenants
from mailwright.schemas.base import extend as extend_response
from mailwright.schemas.campaigns import (
    CampaignCheckResponse,
    CampaignDuplicateRequest,
    CampaignExtendRequest,
    CampaignExtendResponse,
    CampaignExtensionResponse,
    CampaignListQuery,
    CampaignListResponse,
    CampaignMoveRequest,
    CampaignMoveResponse,
    CampaignRefused,
    CampaignRequest,
    CampaignResolveResponse,
    CampaignResponse,
    CampaignRetryResponse,
    CampaignScheduleRequest,
    CampaignStartQuery,
    CampaignStartResponse,
    CampaignTestRequest,
    CampaignTestResponse,
    CampaignWinnerRequest,
    ExtensionQuery,
    FailedRecipientListResponse,
    InDoubtListResponse,
    ReviewedQuery,
    campaign_check_response,
    campaign_response,
    campaign_summary_response,
    failed_recipient_response,
    in_doubt_message_response,
    warning_responses,
)
from mailwright.schemas.explanations import bulk_limit_response
from mailwright.schemas.messages import ResolveRequest
from mailwright.schemas.paging import decode_cursor
from mailwright.sources.api.senders import require_sender
from mailwright.sources.api.validation import parse, parse_strict
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.bulk_limits import load_bulk_limits
from mailwright.sources.campaigns.checks import CampaignCheck, check_campaign, require_existing
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.extension import preview_extension
from mailwright.sources.campaigns.failed_recipients import list_failed, list_in_doubt
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.review import digest_checked
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.paging import PageQuery
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/campaigns", tags=["campaigns"], dependencies=[RequireCampaignSender])


_CAMPAIGN_RESPONSES = describe_responses({HTTPStatus.OK: CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: CampaignListResponse}))
async def list_campaigns(engine: EngineDep, caller: CallerDep, page: Annotated[CampaignListQuery, Query()]) -> Response:
    """List the campaigns, latest first."""
    campaigns = await engine.campaigns.list_page(
        tenant_id=caller.tenant_id, limit=page.limit, before=page.before("campaign"), state=page.state
    )
    await refresh_queue(engine.database, engine.clock, engine.defaults)
    async with engine.database.read() as tx:
        queue = await progress.list_positions(tx, tenant_id=caller.tenant_id)
    positions = {position.campaign_id: position for position in queue}
    return json_response(
        CampaignListResponse(
            campaigns=[
                campaign_summary_response(campaign, positions.get(campaign.campaign_id)) for campaign in campaigns
            ],
            next_cursor=page.next_cursor("campaign", [campaign.key for campaign in campaigns]),
        )
    )


@router.post(
    "",
    scope=Scope.PROPOSE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(CampaignRequest),
    responses=describe_responses({HTTPStatus.CREATED: CampaignResponse}, *BODY_PROBLEMS),
)
async def create(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Create a draft. The pre-send check runs when the campaign starts, or through the `preflight` route."""
    wanted = parse_strict(CampaignRequest, await read_json(request), await _zone(engine, caller))
    require_sender(caller, wanted.sender or await engine.directory.default_sender(caller.tenant_id))
    await require_existing(engine.database, caller.tenant_id, wanted)
    made = await engine.campaigns.create(_actor(caller), caller.tenant_id, wanted)
    return json_response(await _campaign_response(engine, made), HTTPStatus.CREATED)


@router.get(
    "/{campaignId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignResponse}, HTTPStatus.NOT_FOUND),
)
async def show(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a campaign: definition, progress, and why it is deferred."""
    return json_response(await _campaign_response(engine, await _find(engine, caller, campaignId)))


@router.put(
    "/{campaignId}",
    scope=Scope.PROPOSE,
    openapi_extra=describe_body(CampaignRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def edit(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Replace a draft. After the start, only the limits of a campaign can be changed.

    The scope `propose` replaces only drafts that a key of the same name created and nobody else has changed.
    """
    wanted = parse_strict(CampaignRequest, await read_json(request), await _zone(engine, caller))
    await _find(engine, caller, campaignId)
    require_sender(caller, wanted.sender or await engine.directory.default_sender(caller.tenant_id))
    await require_existing(engine.database, caller.tenant_id, wanted)
    must_be_own = not caller.allows(Scope.MANAGE)
    edited = await engine.campaigns.edit(_actor(caller), campaignId, wanted, must_be_own=must_be_own)
    return json_response(await _campaign_response(engine, edited))


@router.post(
    "/{campaignId}/preflight",
    scope=Scope.PROPOSE,
    responses=describe_responses({HTTPStatus.OK: CampaignCheckResponse}, HTTPStatus.NOT_FOUND),
)
async def preflight(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Run the pre-send check without starting the campaign."""
    campaign = await _find(engine, caller, campaignId)
    found = await _check(engine, campaign)
    reviewed = await digest_checked(campaign, found, engine.campaigns.rules)
    return json_response(campaign_check_response(found, reviewed))


@router.post(
    "/{campaignId}/start",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: CampaignStartResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def start(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[CampaignStartQuery, Query()],
) -> Response:
    """Freeze the content and put the campaign in the queue; a worker then enqueues the messages.

    An error lists every reason why the campaign cannot start. A send time in the past also prevents the start, unless
    `sendNow` is true. With `reviewed`, a campaign that has changed since its pre-send check does not start: 409
    `CHANGED_SINCE_REVIEW` names what changed.
    """
    with _problems_are_field_errors():
        campaign, warnings = await engine.campaigns.start_with_warnings(
            _actor(caller),
            campaignId,
            _context(engine),
            overrides_rules=query.override_sender_rules,
            send_now=query.send_now,
            reviewed=query.reviewed,
        )
    response = await _campaign_response(engine, campaign)
    limits = await load_bulk_limits(engine.database, engine.defaults, campaign.tenant_id, engine.clock.now())
    shown = {"warnings": warning_responses(warnings), "limits": [bulk_limit_response(each) for each in limits]}
    return json_response(extend_response(CampaignStartResponse, response, **shown))


@router.post("/{campaignId}/override-sender-rules", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def override_sender_rules(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Send even if the rules of the large mailbox providers are not met. The audit log records it."""
    campaign = await engine.campaigns.override_rules(_actor(caller), campaignId)
    return json_response(await _campaign_response(engine, campaign))


@router.put(
    "/{campaignId}/schedule",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(CampaignScheduleRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def reschedule(
    request: Request,
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[ReviewedQuery, Query()],
) -> Response:
    """Change the send time of a draft or of a campaign that has not begun to send; null means now."""
    wanted = parse_strict(CampaignScheduleRequest, await read_json(request), await _zone(engine, caller))
    moved = await engine.campaigns.reschedule(_actor(caller), campaignId, wanted.scheduled_at, reviewed=query.reviewed)
    return json_response(await _campaign_response(engine, moved))


@router.post(
    "/{campaignId}/move",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(CampaignMoveRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignMoveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def move(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Move the campaign to another position in your queue."""
    wanted = parse_strict(CampaignMoveRequest, await read_json(request))
    campaign, position = await engine.campaigns.move(_actor(caller), campaignId, wanted.position)
    response = await _campaign_response(engine, campaign)
    return json_response(extend_response(CampaignMoveResponse, response, position=position))


@router.post("/{campaignId}/pause", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def pause(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Pause the campaign after the current batch. It keeps its position in the queue."""
    return json_response(await _campaign_response(engine, await engine.campaigns.pause(_actor(caller), campaignId)))


@router.post("/{campaignId}/resume", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def resume(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[ReviewedQuery, Query()],
) -> Response:
    """Resume a paused campaign where it stopped."""
    resumed = await engine.campaigns.resume(_actor(caller), campaignId, reviewed=query.reviewed)
    return json_response(await _campaign_response(engine, resumed))


@router.post("/{campaignId}/cancel", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def cancel(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Cancel all messages that have not been sent yet. The report keeps the sent messages."""
    return json_response(await _campaign_response(engine, await engine.campaigns.cancel(_actor(caller), campaignId)))


@router.post("/{campaignId}/withdraw", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def withdraw(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Turn a campaign that has not begun to send back into a draft."""
    campaign = await engine.campaign_removal.withdraw(_actor(caller), campaignId)
    return json_response(await _campaign_response(engine, campaign))


@router.post("/{campaignId}/archive", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def archive(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Hide a draft or a finished campaign from the list of campaigns. Its messages and report stay."""
    campaign = await engine.campaign_removal.archive(_actor(caller), campaignId)
    return json_response(await _campaign_response(engine, campaign))


@router.delete(
    "/{campaignId}",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def delete(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a campaign that never started. `restore` brings it back. A started campaign can be archived instead."""
    await engine.campaign_removal.delete(_actor(caller), campaignId)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/{campaignId}/restore", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def restore(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Bring back an archived or deleted campaign."""
    campaign = await engine.campaign_removal.restore(_actor(caller), campaignId)
    return json_response(await _campaign_response(engine, campaign))


@router.post(
    "/{campaignId}/retry-failed",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: CampaignRetryResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def retry_failed(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Retry the failed messages and count their attempts from zero. Skips bounced and suppressed addresses."""
    campaign, found = await engine.campaign_failures.retry_failed(_actor(caller), campaignId)
    response = await _campaign_response(engine, campaign)
    return json_response(
        extend_response(
            CampaignRetryResponse,
            response,
            retried=found.retried,
            not_retried=found.bounced + found.suppressed,
            not_retried_bounced=found.bounced,
        )
    )


@router.get(
    "/{campaignId}/in-doubt",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: InDoubtListResponse}, HTTPStatus.NOT_FOUND),
)
async def in_doubt(campaignId: str, engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:  # noqa: N803
    """List the messages in doubt: the provider may or may not have them."""
    campaign = await _find(engine, caller, campaignId)
    after = decode_cursor("in-doubt", page.cursor)[0] if page.cursor is not None else 0
    async with engine.database.read() as tx:
        position = await progress.find_position(tx, campaign.key)
        found = [] if position is None else await list_in_doubt(tx, position.lane, limit=page.limit, after=after)
    return json_response(
        InDoubtListResponse(
            messages=[in_doubt_message_response(recipient) for recipient in found],
            next_cursor=page.next_cursor("in-doubt", [recipient.message_key for recipient in found]),
        )
    )


@router.post(
    "/{campaignId}/in-doubt/resolve",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(ResolveRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignResolveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def resolve_in_doubt(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Resolve all messages in doubt: they were `sent`, must be sent again (`resend`), or remain unknown (`close`)."""
    wanted = parse(ResolveRequest, await read_json(request))
    campaign, count = await engine.campaign_failures.resolve_in_doubt(_actor(caller), campaignId, wanted.resolution)
    response = await _campaign_response(engine, campaign)
    return json_response(extend_response(CampaignResolveResponse, response, resolved=count))


@router.post("/{campaignId}/accept-failures", scope=Scope.MANAGE, responses=_CAMPAIGN_RESPONSES)
async def accept_failures(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Mark the campaign as sent even though some messages failed."""
    return json_response(
        await _campaign_response(engine, await engine.campaign_failures.accept_failures(_actor(caller), campaignId))
    )


@router.post(
    "/{campaignId}/duplicate",
    scope=Scope.PROPOSE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(CampaignDuplicateRequest),
    responses=describe_responses({HTTPStatus.CREATED: CampaignResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def duplicate(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Create a draft with the same content and audience."""
    wanted = parse_strict(CampaignDuplicateRequest, await read_json(request))
    made = await engine.campaigns.duplicate(_actor(caller), campaignId, wanted.name)
    return json_response(await _campaign_response(engine, made), HTTPStatus.CREATED)


@router.post(
    "/{campaignId}/test",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(CampaignTestRequest),
    responses=describe_responses({HTTPStatus.ACCEPTED: CampaignTestResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def test(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Send test emails to a few addresses, one for each variant and address. The report does not count them."""
    wanted = parse_strict(CampaignTestRequest, await read_json(request))
    with _problems_are_field_errors():
        messages = await engine.campaigns.test_send(
            _actor(caller), campaignId, wanted.addresses, as_contact=wanted.as_contact
        )
    return json_response(CampaignTestResponse(mails=messages), HTTPStatus.ACCEPTED)


@router.get(
    "/{campaignId}/extend",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignExtensionResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def show_extension(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[ExtensionQuery, Query()],
) -> Response:
    """Count the contacts who would also get the campaign, without sending anything."""
    newcomers, reviewed = await preview_extension(
        engine.database, engine.clock, _actor(caller), campaignId, query.segment
    )
    return json_response(CampaignExtensionResponse(newcomers=newcomers, reviewed=reviewed))


@router.post(
    "/{campaignId}/extend",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(CampaignExtendRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignExtendResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def extend(
    request: Request,
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[ReviewedQuery, Query()],
) -> Response:
    """Also send the campaign to new subscribers and, if given, to another segment. Nobody gets it twice."""
    wanted = parse_strict(CampaignExtendRequest, await read_json(request))
    campaign, newcomers = await engine.campaigns.extend(
        _actor(caller), campaignId, segment=wanted.segment, reviewed=query.reviewed
    )
    response = await _campaign_response(engine, campaign)
    return json_response(extend_response(CampaignExtendResponse, response, newcomers=newcomers))


@router.post(
    "/{campaignId}/winner",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(CampaignWinnerRequest),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def choose_winner(
    request: Request,
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[ReviewedQuery, Query()],
) -> Response:
    """Choose the winner of an A/B test; the rest of the audience gets this variant."""
    wanted = parse_strict(CampaignWinnerRequest, await read_json(request))
    chosen = await engine.campaigns.choose_winner(_actor(caller), campaignId, wanted.version, reviewed=query.reviewed)
    return json_response(await _campaign_response(engine, chosen))


@router.put(
    "/{campaignId}/limits",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(CampaignLimits),
    responses=describe_responses(
        {HTTPStatus.OK: CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def edit_limits(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Replace the limits of the campaign. If it is being sent, they apply from the next batch."""
    wanted = parse_strict(CampaignLimits, await read_json(request))
    return json_response(
        await _campaign_response(engine, await engine.campaigns.edit_limits(_actor(caller), campaignId, wanted))
    )


@router.get(
    "/{campaignId}/failures",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: FailedRecipientListResponse}, HTTPStatus.NOT_FOUND),
)
async def failures(campaignId: str, engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:  # noqa: N803
    """List the failed recipients and the errors, by address. Excludes recipients who unsubscribed before sending."""
    campaign = await _find(engine, caller, campaignId)
    after = decode_cursor("failure", page.cursor)[0] if page.cursor is not None else 0
    async with engine.database.read() as tx:
        position = await progress.find_position(tx, campaign.key)
        failed = [] if position is None else await list_failed(tx, position.lane, limit=page.limit, after=after)
    return json_response(
        FailedRecipientListResponse(
            failures=[failed_recipient_response(recipient) for recipient in failed],
            next_cursor=page.next_cursor("failure", [recipient.message_key for recipient in failed]),
        )
    )


def _actor(caller: Caller) -> Actor:
    return Actor(actor_of(caller), caller.tenant_id)


async def _zone(engine: Engine, caller: Caller) -> ZoneInfo:
    return await tenants.load_zone(engine.database, caller.tenant_id, engine.defaults.limits.timezone)


async def _find(engine: Engine, caller: Caller, campaign_id: str) -> Campaign:
    return await engine.campaigns.find(campaign_id, tenant_id=caller.tenant_id)


async def _campaign_response(engine: Engine, campaign: Campaign) -> CampaignResponse:
    await refresh_queue(engine.database, engine.clock, engine.defaults)
    return campaign_response(campaign, await load_numbers(engine.database, campaign))


async def _check(engine: Engine, campaign: Campaign) -> CampaignCheck:
    return await check_campaign(
        engine.database,
        engine.templates,
        campaign.definition,
        tenant_id=campaign.tenant_id,
        now=engine.clock.now(),
        facts=_context(engine),
        counts_excluded=True,
        rules=engine.campaigns.rules,
        attachments=campaign.attachments,
    )


def _context(engine: Engine) -> PresendContext:
    return PresendContext(postal_address=engine.postal_address, limits=engine.defaults.limits)


@contextmanager
def _problems_are_field_errors() -> Iterator[None]:
    """Report each field that prevents the start, as for any other invalid request."""
    try:
        yield
    except CampaignNotStartable as error:
        raise CampaignRefused(error) from error
