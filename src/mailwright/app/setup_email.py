"""The test email of the set-up."""

from typing import Any

from sqlalchemy import select

from mailwright.access.api_keys import Caller
from mailwright.app.serving import work
from mailwright.app.setup import SetupStep, StepState, record_step
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.ids import uuid7
from mailwright.domain.states import OPEN, Status
from mailwright.ops.settings import Settings
from mailwright.outbox import message_records, tenants
from mailwright.outbox.message_records import MessageSummary
from mailwright.outbox.workers import list_present
from mailwright.sources.api.messages import RequestContext
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries


def compose_test_email(to: str, public_url: str) -> dict[str, Any]:
    """Return the request for the test email."""
    sentence = f"It works: {public_url} sent this email."
    return {"to": to, "subject": "Test email from Mailwright", "html": f"<p>{sentence}</p>", "text": sentence}


async def record_test(database: Database, found: MessageSummary) -> None:
    """Record the step if the test email was sent. A change of the provider reopens the step."""
    if found.status == Status.SENT:
        await record_step(database, SetupStep.TEST, StepState.DONE)


async def send_test_email(settings: Settings, to: str, *, actor: str) -> MessageSummary:
    """Accept a test email, send it if no worker runs, and return its status.

    If other messages wait, the test email waits too, because the set-up must not send them.
    """
    async with open_engine(settings) as engine:
        owner = await tenants.find(engine.database, tenants.DEFAULT)
        is_idle = await _is_idle(engine)
        context = RequestContext(Caller(owner.id, owner.name, actor=actor), uuid7(engine.clock.now()))
        accepted = await engine.api_messages.send(context, compose_test_email(to, engine.public_url))
        if is_idle:
            await work(engine, Shutdown(), drain=True)
        found = await message_records.find(engine.database, accepted.outbox_id, tenant_id=owner.id)
        await record_test(engine.database, found.summary)
        return found.summary


async def _is_idle(engine: Engine) -> bool:
    """Return whether no worker runs and nothing waits to be sent."""
    now = engine.clock.now()
    if any(not each.is_silent(now) for each in await list_present(engine.database, now)):
        return False
    async with engine.database.read() as tx:
        return not await tx.execute(select(deliveries.c.message_key).where(deliveries.c.status.in_(OPEN)).limit(1))
