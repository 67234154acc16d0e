"""Check the senders of an API key: a key with allowed senders can change only objects that send from these senders."""

from fastapi import Depends, Request

from mailwright.sources.api.senders import require_sender
from mailwright.web.api.caller import CallerDep
from mailwright.web.session import SAFE_METHODS
from mailwright.web.state import EngineDep


async def require_campaign_sender(request: Request, engine: EngineDep, caller: CallerDep) -> None:
    campaign_id = request.path_params.get("campaignId")
    if caller.senders is None or campaign_id is None or request.method in SAFE_METHODS:
        return
    campaign = await engine.campaigns.find(campaign_id, tenant_id=caller.tenant_id)
    require_sender(caller, campaign.definition.sender or await engine.directory.default_sender(caller.tenant_id))


RequireCampaignSender = Depends(require_campaign_sender)
