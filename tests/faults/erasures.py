"""Erase people while workers are killed amid their messages: nothing more is sent, and all data is deleted."""

import asyncio
import random
from contextlib import suppress

from sqlalchemy import func, or_, select, update

from mailwright.audience.erasure import erase
from mailwright.audience.erasure_state import Erasure
from mailwright.domain.clock import DAY, SystemClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.states import CLAIMABLE, Status
from mailwright.storage.tables import contacts, deliveries, erasures, messages
from tests.builders import DEFAULT_TENANT, a_message, a_newsletter
from tests.faults.figures import Figures
from tests.faults.stage import Stage

SEED = 20_261_118
MESSAGES_EACH = 4
SECONDS_TO_FINISH = 60
TRIES = 20


async def run(stage: Stage, *, kills: int, people: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.3)
    emails = [f"person-{number}@erased.example" for number in range(people)]
    wanted = [a_message(to=each) if n % 2 else a_newsletter(to=each) for n in range(MESSAGES_EACH) for each in emails]
    await stage.accept_all(wanted)
    begun: set[str] = set()
    results: list[Erasure] = []
    for start in range(kills):
        some = emails[start::kills]
        worker = await stage.working()
        await _wait_for_attempts(stage)
        await asyncio.sleep(chance.uniform(0.0, 0.2))
        erasing = asyncio.gather(*[_erase(stage, each) for each in some])
        await asyncio.sleep(chance.uniform(0.0, 0.2))
        worker.kill()
        results += await erasing
        begun |= await _begun(stage, some)
    pending = sum(not each.is_finished for each in results)
    unsent = await _count_unsent(stage)
    worker = await stage.working()
    await _finish(stage)
    worker.kill()

    figures.note("kills", kills)
    figures.expect("people erased while a message had no result", pending, "> 0", when=pending > 0)
    figures.none("messages that an erasure left in the queue", unsent)
    later = {each for each in stage.received() if each in stage.accepted} - begun
    figures.none("messages sent after the erasure of their recipient", sorted(later))
    figures.none("erasures that did not finish", await _count_erasures(stage))
    figures.none("rows that still contain an erased address", await _count_traces(stage))
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


async def _wait_for_attempts(stage: Stage) -> None:
    """Wait until a message is being sent. A worker that finds none to send gets only a few seconds."""
    attempts = select(func.count()).select_from(deliveries).where(deliveries.c.status == Status.SENT_ATTEMPT)
    for _ in range(200):
        async with stage.database.read() as tx:
            if (await tx.execute(attempts))[0][0]:
                return
        await asyncio.sleep(0.02)


async def _erase(stage: Stage, email: str) -> Erasure:
    """Erase a contact. Like a client of the API, try again while the database is busy."""
    for _ in range(TRIES):
        with suppress(NotDurable):
            return await erase(stage.database, SystemClock(), DEFAULT_TENANT, email, actor="faults")
    raise NotDurable


async def _begun(stage: Stage, emails: list[str]) -> set[str]:
    """Return the messages to these people, or to people who are erased already, that a worker has begun to send."""
    m, d = messages.c, deliveries.c
    theirs = or_(m.to_email.in_(emails), m.to_email.endswith("@invalid"))
    began = d.status.in_([Status.SENT, Status.SENT_ATTEMPT, Status.IN_DOUBT, Status.CLOSED_UNKNOWN])
    query = select(m.outbox_id).join_from(messages, deliveries, d.message_key == m.id).where(theirs, began)
    async with stage.database.read() as tx:
        return {row.outbox_id for row in await tx.execute(query)}


async def _count_unsent(stage: Stage) -> int:
    async with stage.database.read() as tx:
        query = select(func.count()).select_from(deliveries).where(deliveries.c.status.in_(CLAIMABLE))
        return int((await tx.execute(query))[0][0])


async def _finish(stage: Stage) -> None:
    """Let a day pass for the messages in doubt until no erasure waits."""
    for _ in range(SECONDS_TO_FINISH):
        if not await _count_erasures(stage):
            return
        earlier = {"in_doubt_since": SystemClock().now() - DAY, "claimable_at": SystemClock().now()}
        async with stage.database.write() as tx:
            await tx.execute(update(deliveries).where(deliveries.c.status == Status.IN_DOUBT).values(**earlier))
        await asyncio.sleep(1)


async def _count_erasures(stage: Stage) -> int:
    async with stage.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(erasures)))[0][0])


async def _count_traces(stage: Stage) -> int:
    async with stage.database.read() as tx:
        counts = [
            (await tx.execute(select(func.count()).where(column.endswith("@erased.example"))))[0][0]
            for column in (contacts.c.email, messages.c.to_email)
        ]
    return sum(counts)
