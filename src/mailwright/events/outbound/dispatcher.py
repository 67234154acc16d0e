"""Dispatch webhook deliveries, one task per endpoint, so that a slow endpoint does not delay others."""

import asyncio
from collections.abc import Sequence
from typing import Final

from mailwright.domain.clock import Clock
from mailwright.events.outbound.deliveries import (
    BATCH_SIZE,
    ClaimedDelivery,
    ClaimExpired,
    DeliveryOutcome,
    EventNotWritten,
    NoReceiverResponse,
    ReceiverResponse,
    WebhookDeliveries,
)
from mailwright.events.outbound.derive import derive_deliveries
from mailwright.events.outbound.endpoints import WebhookEndpoint, url_without_query
from mailwright.events.outbound.formats.webhook_format import RequestContent, Signing
from mailwright.ops.logs import logger
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.storage.database import Database

# Request timeout. A receiver should store the event, respond, and do longer work afterwards.
TIMEOUT_SECONDS: Final = 15.0
MAX_RESPONSE_BYTES: Final = 4 * 1024
MAX_CONCURRENT_ENDPOINTS: Final = 16
# Maximum number of batches before the endpoint is loaded again, because it may have been edited or removed.
MAX_BATCHES: Final = 25

log = logger(__name__)


class WebhookDispatcher:
    """Sends due deliveries. `http` must check resolved addresses and must not follow redirects.

    `directory` knows the default senders of tenants.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        http: HttpClient,
        *,
        directory: SenderDirectory | None = None,
        base_url: str = "",
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._http = http
        self._base_url = base_url
        self._timeout_seconds = timeout_seconds
        self._deliveries = WebhookDeliveries(database, clock, directory)
        self._in_progress: dict[int, asyncio.Task[None]] = {}

    async def dispatch_due(self) -> bool:
        """Create deliveries from new events, and start to send due ones. Return whether there may be more events."""
        has_more = await derive_deliveries(self._database, self._clock)
        room = MAX_CONCURRENT_ENDPOINTS - len(self._in_progress)
        if room > 0:
            # The due endpoints can include endpoints that are already in progress and have more than one batch.
            for endpoint in await self._deliveries.due_endpoints(
                limit=MAX_CONCURRENT_ENDPOINTS + len(self._in_progress)
            ):
                if endpoint.key not in self._in_progress and len(self._in_progress) < MAX_CONCURRENT_ENDPOINTS:
                    self._start(endpoint)
        return has_more

    async def wait_until_idle(self) -> None:
        """Wait until no endpoint is in progress."""
        while self._in_progress:
            await asyncio.wait(self._in_progress.values())

    async def dispatch_all(self) -> None:
        """Dispatch until nothing is due."""
        while await self.dispatch_due() or self._in_progress:
            await self.wait_until_idle()

    async def dispatch_one(self, endpoint: WebhookEndpoint, delivery_key: int) -> None:
        """Send this delivery now, unless another process has claimed it."""
        await self.send_claimed(endpoint, await self._deliveries.claim(endpoint, only=delivery_key))

    async def close(self) -> None:
        """Cancel requests in progress. When their leases expire, the deliveries are made again."""
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.close()

    def _start(self, endpoint: WebhookEndpoint) -> None:
        task = asyncio.create_task(self._send_due(endpoint), name=f"webhook {endpoint.webhook_id}")
        self._in_progress[endpoint.key] = task
        task.add_done_callback(lambda _: self._in_progress.pop(endpoint.key))

    async def _send_due(self, endpoint: WebhookEndpoint) -> None:
        try:
            for _ in range(MAX_BATCHES):
                if await self.send_claimed(endpoint, await self._deliveries.claim(endpoint)) < BATCH_SIZE:
                    return
        except Exception as error:  # Other endpoints continue, and these deliveries are due again after their leases.
            log.warning("webhook_dispatch_failed", webhook=endpoint.webhook_id, reason=type(error).__name__)

    async def send_claimed(self, endpoint: WebhookEndpoint, claimed: list[ClaimedDelivery]) -> int:
        """Send claimed deliveries and settle them. Return the number of successes."""
        if not claimed:
            return 0
        secrets = [self._database.secret_box.decrypt(key) for key in endpoint.keys(self._clock.now())]
        requests = [claimed] if endpoint.shape.is_batch else [[each] for each in claimed]
        results = await asyncio.gather(*(self._post(endpoint, secrets, each) for each in requests))
        outcomes = [outcome for result in results for outcome in result]
        await self._deliveries.settle(endpoint, list(zip(claimed, outcomes, strict=True)))
        delivered = sum(isinstance(outcome, ReceiverResponse) and outcome.is_success for outcome in outcomes)
        if delivered < len(claimed):
            log.info(
                "webhook_failed",
                webhook=endpoint.webhook_id,
                url=url_without_query(endpoint.url),
                failed=len(claimed) - delivered,
            )
        return delivered

    async def _post(
        self, endpoint: WebhookEndpoint, secrets: Sequence[str], claimed: Sequence[ClaimedDelivery]
    ) -> list[DeliveryOutcome]:
        """Send one request, which has several deliveries if the format has batches.

        If the format cannot write an event of a batch, each of its deliveries gets its own request.
        """
        began, until = self._clock.now(), min(each.until for each in claimed)
        is_expired = False

        def may_begin() -> bool:
            nonlocal is_expired
            is_expired = self._clock.now() >= until
            return not is_expired

        signing = Signing(secrets, began, self._base_url)
        # In a thread, because some signatures take milliseconds.
        content = await asyncio.to_thread(_write, endpoint, claimed, signing)
        if isinstance(content, EventNotWritten):
            if len(claimed) == 1:
                return [content]
            results = await asyncio.gather(*(self._post(endpoint, secrets, [each]) for each in claimed))
            return [outcome for result in results for outcome in result]
        reply = await self._http.request(
            "POST",
            endpoint.url,
            headers={"Content-Type": "application/json", **content.headers},
            body=content.body,
            timeout_seconds=self._timeout_seconds,
            max_response_bytes=MAX_RESPONSE_BYTES,
            may_begin=may_begin,
        )
        return [_outcome(reply, self._clock.now() - began, is_expired=is_expired)] * len(claimed)


def _write(
    endpoint: WebhookEndpoint, claimed: Sequence[ClaimedDelivery], signing: Signing
) -> RequestContent | EventNotWritten:
    try:
        return endpoint.shape.request([each.event for each in claimed], signing)
    except Exception as error:  # The other deliveries of the endpoint are still made and settled.
        shape, reason = endpoint.shape.name, type(error).__name__
        if len(claimed) == 1:
            delivery_id = claimed[0].delivery_id
            log.error("webhook_event_not_written", delivery=delivery_id, format=shape, exc_info=error)
        return EventNotWritten(f"Not sent: Mailwright cannot write this event in the format {shape} ({reason}).")


def _outcome(reply: HttpResponse | Disconnect, took: int, *, is_expired: bool) -> DeliveryOutcome:
    if isinstance(reply, Disconnect):
        return ClaimExpired() if is_expired else NoReceiverResponse(reply.cause, took)
    return ReceiverResponse(reply.status, reply.body.decode("utf-8", "replace"), took)
