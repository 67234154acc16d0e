"""Telling others: outgoing webhooks are carried by whichever process works, through a client that guards its way."""

from typing import TYPE_CHECKING

from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.errors import NotDurable
from mailwright.events.outbound.deliveries import WebhookDeliveries
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.storage.database import Database

if TYPE_CHECKING:
    from mailwright.events.outbound.dispatcher import WebhookDispatcher

TICK_SECONDS = 1.0
FORGET_EVERY = HOUR
CONNECTIONS = 64
INSIDE = "it leads into a private network; MAILWRIGHT_WEBHOOK_PRIVATE=true allows that"

log = logger(__name__)


def make_webhook_dispatcher(settings: Settings, database: Database, clock: Clock) -> "WebhookDispatcher":
    """Tenants write the addresses: unless the settings say otherwise, none may lead into our own network."""
    from mailwright.app.link_checks import public_only  # noqa: PLC0415 - a tenth of a second, for those who use it
    from mailwright.events.outbound.dispatcher import WebhookDispatcher  # noqa: PLC0415
    from mailwright.providers.http import HttpClient, addresses_of  # noqa: PLC0415

    resolve = addresses_of if settings.webhook_private else public_only(otherwise=INSIDE)
    return WebhookDispatcher(database, clock, HttpClient(connections=CONNECTIONS, resolve=resolve))


async def dispatch_due_webhooks(settings: Settings, database: Database, clock: Clock) -> None:
    """Once, for a process that ends: what is due now. What a receiver does not take waits for the next one."""
    if not await WebhookDeliveries(database, clock).has_active_endpoints():
        return
    posting = make_webhook_dispatcher(settings, database, clock)
    try:
        await posting.dispatch_all()
    except NotDurable as error:
        log.warning("webhooks_postponed", reason=str(error))
    except Exception as error:  # the mail has gone, whether or not anybody is told
        log.error("webhooks_failed", exc_info=error)
    finally:
        await posting.close()


async def run_webhook_dispatcher(settings: Settings, database: Database, clock: Clock) -> None:
    """Until it is cancelled. Any number of processes may tell: each delivery is claimed by one of them."""
    posting = make_webhook_dispatcher(settings, database, clock)
    forgets_at = clock.now()

    async def dispatch() -> float | None:
        nonlocal forgets_at
        has_more = await posting.dispatch_due()
        if not 0 < forgets_at - clock.now() <= FORGET_EVERY:
            forgets_at = clock.now() + FORGET_EVERY
            await WebhookDeliveries(database, clock).delete_old()
        return 0.0 if has_more else None

    try:
        await run_periodically("webhooks", dispatch, seconds=TICK_SECONDS)
    finally:
        await posting.close()
