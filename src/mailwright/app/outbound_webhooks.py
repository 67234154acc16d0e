"""Run the dispatcher of outgoing webhooks in worker processes."""

from typing import TYPE_CHECKING

from mailwright.app.sender_directory import make_directory
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
DELETE_EVERY = HOUR
CONNECTIONS = 64
PRIVATE_ADDRESS = "the address is in a private network; MAILWRIGHT_WEBHOOK_PRIVATE=true allows it"

log = logger(__name__)


def make_webhook_dispatcher(settings: Settings, database: Database, clock: Clock) -> "WebhookDispatcher":
    """Create the dispatcher. Tenants choose the URLs, so private addresses are blocked by default."""
    from mailwright.app.link_checks import public_only  # noqa: PLC0415 - takes 0.1 s, so imported on use
    from mailwright.events.outbound.dispatcher import WebhookDispatcher  # noqa: PLC0415
    from mailwright.providers.http import HttpClient, addresses_of  # noqa: PLC0415

    resolve = addresses_of if settings.webhook_private else public_only(otherwise=PRIVATE_ADDRESS)
    http = HttpClient(connections=CONNECTIONS, resolve=resolve)
    directory = make_directory(settings, database, clock)
    return WebhookDispatcher(database, clock, http, directory=directory, base_url=settings.public_url)


async def dispatch_due_webhooks(settings: Settings, database: Database, clock: Clock) -> None:
    """Dispatch all due deliveries once, for a process that exits. Failed deliveries wait for the next process."""
    if not await WebhookDeliveries(database, clock).has_active_endpoints():
        return
    dispatcher = make_webhook_dispatcher(settings, database, clock)
    try:
        await dispatcher.dispatch_all()
    except NotDurable as error:
        log.warning("webhooks_delayed", reason=str(error))
    except Exception as error:  # A webhook failure must not stop the sending of messages.
        log.error("webhooks_failed", exc_info=error)
    finally:
        await dispatcher.close()


async def run_webhook_dispatcher(settings: Settings, database: Database, clock: Clock) -> None:
    """Dispatch until cancelled. Any number of processes may run this, because each delivery is claimed by one."""
    dispatcher = make_webhook_dispatcher(settings, database, clock)
    next_deletion = clock.now()

    async def dispatch() -> float | None:
        nonlocal next_deletion
        has_more = await dispatcher.dispatch_due()
        if not 0 < next_deletion - clock.now() <= DELETE_EVERY:
            next_deletion = clock.now() + DELETE_EVERY
            await WebhookDeliveries(database, clock).delete_old()
        return 0.0 if has_more else None

    try:
        await run_periodically("webhooks", dispatch, seconds=TICK_SECONDS)
    finally:
        await dispatcher.close()
