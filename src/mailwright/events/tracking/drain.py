"""Store the opens and clicks of the spool: as events of messages, or as totals of campaigns."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.machines import is_too_soon
from mailwright.domain.report import Report
from mailwright.domain.tracking import TrackingMode, parse_mode
from mailwright.events.reports import Reports
from mailwright.events.tracking.redirects import Redirects
from mailwright.events.tracking.spool import FinishedFile, TrackedHit
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.installation_values import insert_value, take_value
from mailwright.outbox.tallies import add_link_tallies
from mailwright.outbox.tracked_links import delete_expired_links
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_TRACKED = statement("mailwright.events", "find_tracked")
FIND_TRACKED_CAMPAIGNS = statement("mailwright.events", "find_tracked_campaigns")

# The source of these reports on the timeline.
SOURCE: Final = "tracking"
DRAIN_SECONDS: Final = 1.0
_BATCH: Final = 2_000
_MARKER: Final = "drained:"


class SpoolDrain:
    def __init__(self, database: Database, clock: Clock, reports: Reports, redirects: Redirects) -> None:
        self._database = database
        self._clock = clock
        self._reports = reports
        self._redirects = redirects
        self._deletes_at: Instant = 0
        self._is_warm = False

    async def run(self) -> None:
        """Store recorded opens and clicks until cancelled. The next process stores the rest."""
        await run_periodically("tracking", self._warm_and_drain, seconds=DRAIN_SECONDS)

    async def _warm_and_drain(self) -> None:
        if not self._is_warm:
            await self._redirects.warm()
            self._is_warm = True
        await self.drain()
        if self._clock.now() >= self._deletes_at:
            await delete_expired_links(self._database, self._clock.now())
            self._deletes_at = self._clock.now() + DAY

    async def drain(self) -> int:
        """Store the lines of all finished files and return their number. An interrupted call can be repeated safely."""
        stored = 0
        for file in self._redirects.spool.finished():
            hits = await asyncio.to_thread(file.hits)
            await self._store(file, hits)
            file.delete()
            stored += len(hits)
        return stored

    async def _store(self, file: FinishedFile, hits: Sequence[TrackedHit]) -> None:
        for start in range(0, len(hits), _BATCH):
            named = [(number, hit) for number, hit in enumerate(hits[start : start + _BATCH], start) if hit.outbox_id]
            reports = await self._accepted(file, named)
            if reports:
                await self._reports.receive(reports)
        await self._add_totals(file, [hit for hit in hits if hit.outbox_id is None])

    async def _accepted(self, file: FinishedFile, named: Sequence[tuple[int, TrackedHit]]) -> list[Report]:
        """Return reports for those hits whose messages' recipients still consent."""
        if not named:
            return []
        ids = sorted({hit.outbox_id for _, hit in named if hit.outbox_id})

        async def find(tx: Runner) -> dict[str, tuple[int | None, Instant | None]]:
            rows = await tx.run(FIND_TRACKED, wanted=[{"outbox_id": each} for each in ids])
            return {
                row.outbox_id: (row.campaign_key, row.attempted_at)
                for row in rows
                if row.consents_to_tracking and parse_mode(row.tracking) in (None, TrackingMode.INDIVIDUAL)
            }

        found = await self._database.transact(find)
        reports = []
        for number, hit in named:
            campaign_key, attempted_at = found.get(hit.outbox_id or "", (-1, None))
            if campaign_key == hit.campaign_key:
                reports.append(_report(f"{file.name}:{number}", hit, attempted_at))
        return reports

    async def _first_sends(self, campaign_keys: Collection[int]) -> dict[int, Instant | None]:
        """Return when the first message of each campaign was sent, without campaigns that are no longer tracked."""
        if not campaign_keys:
            return {}
        wanted = [{"campaign_key": key} for key in sorted(campaign_keys)]
        rows = await self._database.transact(lambda tx: tx.run(FIND_TRACKED_CAMPAIGNS, wanted=wanted))
        return {row.campaign_key: row.first_sent_at for row in rows if not _is_off(row)}

    async def _add_totals(self, file: FinishedFile, hits: Sequence[TrackedHit]) -> None:
        """Add anonymous hits to the totals of their campaigns, once for each file."""
        first_sends = await self._first_sends({hit.campaign_key for hit in hits if hit.campaign_key})
        counts = Counter(
            (hit.campaign_key, _type_name(hit, first_sends[hit.campaign_key]), hit.url or "")
            for hit in hits
            if hit.campaign_key in first_sends
        )
        if not counts:
            return
        marker = f"{_MARKER}{file.name}"
        try:
            async with self._database.write() as tx:
                await insert_value(tx, marker, "")
                await add_link_tallies(tx, counts)
        except IntegrityError:
            pass  # A process added these totals and was killed before it deleted the file.
        file.delete()
        async with self._database.write() as tx:
            await take_value(tx, marker)


def _is_off(campaign: Any) -> bool:
    modes = (campaign.tracking, orjson.loads(campaign.definition).get("tracking"))
    return any(parse_mode(mode) is TrackingMode.OFF for mode in modes)


def _report(key: str, hit: TrackedHit, attempted_at: Instant | None) -> Report:
    is_machine = hit.is_machine or is_too_soon(hit.at, attempted_at)
    link: dict[str, Any] = {} if hit.url is None else {"url": hit.url}
    link |= {"isInvisibleLink": True} if hit.is_invisible_link else {}
    return Report(key, SOURCE, hit.type, hit.at, outbox_id=hit.outbox_id, metadata={"isMachine": is_machine, **link})


def _type_name(hit: TrackedHit, first_sent_at: Instant | None) -> str:
    is_machine = hit.is_machine or is_too_soon(hit.at, first_sent_at)
    return f"machine_{hit.type}" if is_machine else str(hit.type)
