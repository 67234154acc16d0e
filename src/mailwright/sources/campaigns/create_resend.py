"""Create the draft that sends a campaign again to those who did not open it."""

from mailwright.domain.campaign import CampaignAction
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.records import Actor, Campaign, check_status
from mailwright.sources.campaigns.resend import resend_definition
from mailwright.storage.database import Database


async def create_resend(
    database: Database, campaigns: Campaigns, actor: Actor, campaign_id: str, *, subject: str, name: str | None = None
) -> Campaign:
    """Create a draft with a new subject and the attachments of the campaign. This is possible once."""
    original = await campaigns.find(campaign_id, tenant_id=actor.tenant_id)
    check_status(original, CampaignAction.RESEND)
    async with database.read() as tx:
        definition = await resend_definition(tx, original, subject, name)
    return await campaigns.create(actor, original.tenant_id, definition, copy_of=original)
