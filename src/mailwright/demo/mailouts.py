"""The demo mailout: the stored result of a Notion page that was sent, because the demo reaches no other system."""

from typing import Final

from mailwright.app.wiring import Engine
from mailwright.demo.campaigns import ACTOR, SUBSCRIBERS
from mailwright.domain.message import Source
from mailwright.sources.campaigns import external
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.external import ExternalCampaign, ExternalRecipient
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus

PAGE: Final = "6d9f2c1e-8a4b-4f3d-9b7e-2c5a1d0e4f68"
SUBJECT: Final = "Open house in the workshop"
RECIPIENTS: Final = 6

_HTML: Final = """<!doctype html>
<html lang="en"><body style="font-family:Georgia,serif;color:#222">
<h1>Open house in the workshop</h1>
<p>Dear {{ name }}, on Saturday all machines run from ten to four.</p>
<p><a href="{{ unsubscribe_url }}">Unsubscribe</a> · {{ postal_address }}</p>
</body></html>
"""
_TEXT: Final = "Dear {{ name }}, on Saturday all machines run from ten to four.\n\nUnsubscribe: {{ unsubscribe_url }}\n"


async def load_mailout(engine: Engine, tenant_id: int) -> None:
    """Put the page into the campaign queue, as a worker does after it has read it from Notion."""
    run = await engine.mailout_runs.accept(tenant_id, PAGE, actor=ACTOR)
    lease = await engine.mailout_runs.claim(run)
    assert lease is not None  # It was accepted a moment ago, and the demo's worker does not run yet.
    stored = await engine.templates.put(tenant_id, run.template_id, subject=SUBJECT, html=_HTML, text=_TEXT)
    people = [(f"{name.partition(' ')[0].lower()}@example.com", name) for name, *_ in SUBSCRIBERS[:RECIPIENTS]]
    recipients = [ExternalRecipient(email, {"variables": {"name": name}}) for email, name in people]
    now = engine.clock.now()
    async with engine.database.write() as tx:
        key = await external.enqueue_external(tx, _campaign(run, stored.key), now)
        await external.add_recipients(tx, Source.MAILOUT, key, recipients, now)
        await external.close_recipients(tx, key, now)
        await lease.change(
            tx,
            status=MailoutRunStatus.SENT,
            is_test=False,
            is_local=True,
            subject=SUBJECT,
            template_key=stored.key,
            campaign_key=key,
            planned=RECIPIENTS,
            finished_at=now,
            reported_at=now,
        )
    await lease.release(None)


def _campaign(run: MailoutRun, template_key: int) -> ExternalCampaign:
    return ExternalCampaign(
        campaign_id=run.mailout_id,
        tenant_id=run.tenant_id,
        name=f"Mailout: {SUBJECT}",
        subject=SUBJECT,
        template_id=run.template_id,
        template_key=template_key,
        planned=RECIPIENTS,
        limits=CampaignLimits(),
    )
