"""Posting: one process's share of the deliveries, endpoint by endpoint, so that a slow one keeps no other waiting."""

import asyncio
from typing import Final

from mailwright.domain.clock import SECOND, Clock
from mailwright.events.outbound import signature
from mailwright.events.outbound.deliveries import (
    BATCH_SIZE,
    ClaimedDelivery,
    ClaimExpired,
    DeliveryOutcome,
    NoReceiverResponse,
    ReceiverResponse,
    WebhookDeliveries,
)
from mailwright.events.outbound.derive import derive_deliveries
from mailwright.events.outbound.endpoints import WebhookEndpoint, url_without_query
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient
from mailwright.storage.database import Database

# A receiver stores what it is told and answers; what takes longer belongs after the answer.
TIMEOUT_SECONDS: Final = 15.0
MAX_RESPONSE_BYTES: Final = 4 * 1024
MAX_CONCURRENT_ENDPOINTS: Final = 16
# Then the endpoint is looked up anew: it may have been changed or removed.
MAX_BATCHES: Final = 25

log = logger(__name__)


class WebhookDispatcher:
    """`http` judges the addresses that names lead to, and follows no redirect."""

    def __init__(
        self, database: Database, clock: Clock, http: HttpClient, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._database = database
        self._clock = clock
        self._http = http
        self._timeout_seconds = timeout_seconds
        self._deliveries = WebhookDeliveries(database, clock)
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def dispatch_due(self) -> bool:
        """Takes up what has happened, and begins to tell it; whether there may be more to do at once."""
        has_more = await derive_deliveries(self._database, self._clock)
        room = MAX_CONCURRENT_ENDPOINTS - len(self._under_way)
        if room > 0:
            # Those under way are among the due ones only while they have more than one batch.
            for endpoint in await self._deliveries.due_endpoints(limit=MAX_CONCURRENT_ENDPOINTS + len(self._under_way)):
                if endpoint.key not in self._under_way and len(self._under_way) < MAX_CONCURRENT_ENDPOINTS:
                    self._begin(endpoint)
        return has_more

    async def wait_until_idle(self) -> None:
        """When all that is under way has ended."""
        while self._under_way:
            await asyncio.wait(self._under_way.values())

    async def dispatch_all(self) -> None:
        """Until nothing is due any more."""
        while await self.dispatch_due() or self._under_way:
            await self.wait_until_idle()

    async def dispatch_one(self, endpoint: WebhookEndpoint, delivery_key: int) -> None:
        """This one delivery, now, if nobody else has it."""
        await self._tell(endpoint, await self._deliveries.claim(endpoint, only=delivery_key))

    async def close(self) -> None:
        """What is under way is cut off: its claims end by themselves, and it is told again."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.close()

    def _begin(self, endpoint: WebhookEndpoint) -> None:
        task = asyncio.create_task(self._tell_due(endpoint), name=f"webhook {endpoint.webhook_id}")
        self._under_way[endpoint.key] = task
        task.add_done_callback(lambda _: self._under_way.pop(endpoint.key))

    async def _tell_due(self, endpoint: WebhookEndpoint) -> None:
        try:
            for _ in range(MAX_BATCHES):
                if await self._tell(endpoint, await self._deliveries.claim(endpoint)) < BATCH_SIZE:
                    return
        except Exception as error:  # the claims end by themselves; no other endpoint pays for it
            log.warning("webhook_not_told", webhook=endpoint.webhook_id, reason=type(error).__name__)

    async def _tell(self, endpoint: WebhookEndpoint, claimed: list[ClaimedDelivery]) -> int:
        """How many were taken."""
        if not claimed:
            return 0
        outcomes = await asyncio.gather(*(self._post(endpoint, each) for each in claimed))
        await self._deliveries.settle(endpoint, list(zip(claimed, outcomes, strict=True)))
        taken = sum(isinstance(each, ReceiverResponse) and each.is_success for each in outcomes)
        if taken < len(claimed):
            log.info(
                "webhook_failed",
                webhook=endpoint.webhook_id,
                url=url_without_query(endpoint.url),
                failed=len(claimed) - taken,
            )
        return taken

    async def _post(self, endpoint: WebhookEndpoint, claimed: ClaimedDelivery) -> DeliveryOutcome:
        began = self._clock.now()
        is_withheld = False

        def may_begin() -> bool:
            nonlocal is_withheld
            is_withheld = self._clock.now() >= claimed.until
            return not is_withheld

        reply = await self._http.request(
            "POST",
            endpoint.url,
            headers={
                "Content-Type": "application/json",
                signature.ID_HEADER: claimed.delivery_id,
                signature.SIGNATURE_HEADER: signature.signature_header(
                    endpoint.keys(began), began // SECOND, claimed.body
                ),
            },
            body=claimed.body,
            timeout_seconds=self._timeout_seconds,
            most_answer_bytes=MAX_RESPONSE_BYTES,
            may_begin=may_begin,
        )
        took = self._clock.now() - began
        if isinstance(reply, Disconnect):
            return ClaimExpired() if is_withheld else NoReceiverResponse(reply.cause, took)
        return ReceiverResponse(reply.status, reply.body.decode("utf-8", "replace"), took)
