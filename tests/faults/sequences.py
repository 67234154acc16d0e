"""Kill workers while people go through a sequence: every step of everyone happens once."""

import asyncio
import random
from collections import Counter
from typing import Any, Final

from sqlalchemy import func, select

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SystemClock
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.sequences import Sequences
from mailwright.storage.tables import messages, sequence_enrolments, sequence_steps
from tests.builders import DEFAULT_TENANT
from tests.campaigns import address_of, join
from tests.faults.figures import Figures
from tests.faults.stage import Stage
from tests.sequences import ACTOR, WELCOME, a_document, an_email

SEED: Final = 20_270_116
LONGEST_SECONDS: Final = 300
STEPS: Final = ("one", "tag", "vip", "two")


async def run(stage: Stage, *, kills: int, people: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    await stage.open_sink(latency_seconds=0.005)
    sequences, sequence_id = await _published(stage)
    workers = [stage.worker(), stage.worker()]
    share = -(-people // kills)
    for number in range(kills):
        emails = [address_of(each) for each in range(number * share, min((number + 1) * share, people))]
        await join(stage.database, emails)
        await sequences.enrolments.enrol(DEFAULT_TENANT, sequence_id, People(emails=emails), actor=ACTOR)
        chosen = chance.randrange(len(workers))
        await workers[chosen].says("worker_started")
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        workers[chosen].kill()
        workers[chosen] = stage.worker()
    async with asyncio.timeout(LONGEST_SECONDS):
        while await _running(stage):
            await asyncio.sleep(0.1)
    await stage.all_done(seconds=60)

    done = await _steps(stage)
    written = await _written(stage)
    copies = [outbox_id for outbox_id, count in stage.received().items() if count > 1]
    figures.note("kills", kills)
    figures.expect("people", len(done), f"{people}", when=len(done) == people)
    figures.none("steps lost or doubled", [key for key, found in done.items() if found != Counter(STEPS)])
    figures.none("people with other than two emails", [each for each, count in written.items() if count != 2])
    figures.expect("emails", sum(written.values()), f"{2 * people}", when=sum(written.values()) == 2 * people)
    figures.none("messages received twice", copies)
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


async def _published(stage: Stage) -> tuple[Sequences, str]:
    clock = SystemClock()
    templates = TemplateStore(stage.database, clock)
    await templates.put(DEFAULT_TENANT, WELCOME, subject="Welcome", html="<p>Hello</p>", text=None)
    sequences = Sequences(stage.database, clock)
    created = await sequences.create(DEFAULT_TENANT, _document(), actor=ACTOR)
    await sequences.publish(DEFAULT_TENANT, created.sequence_id, actor=ACTOR)
    return sequences, created.sequence_id


def _document() -> dict[str, Any]:
    return a_document(
        an_email("one"),
        {"id": "tag", "change": {"addTags": ["vip"]}},
        {"id": "vip", "branch": [{"if": {"tag": "vip"}, "steps": [an_email("two")]}]},
    )


async def _running(stage: Stage) -> int:
    e = sequence_enrolments.c
    async with stage.database.read() as tx:
        return int((await tx.execute(select(func.count()).where(e.ended_at.is_(None))))[0][0])


async def _steps(stage: Stage) -> dict[int, Counter[str]]:
    """Return how often each step happened, by enrolment."""
    e, s = sequence_enrolments.c, sequence_steps.c
    joined = sequence_enrolments.outerjoin(sequence_steps, s.enrolment_key == e.id)
    found: dict[int, Counter[str]] = {}
    async with stage.database.read() as tx:
        for row in await tx.execute(select(e.id, s.node).select_from(joined)):
            found.setdefault(row.id, Counter())[row.node] += 1
    return found


async def _written(stage: Stage) -> dict[str, int]:
    m = messages.c
    query = select(m.to_email, func.count().label("emails")).group_by(m.to_email)
    async with stage.database.read() as tx:
        return {row.to_email: row.emails for row in await tx.execute(query)}
