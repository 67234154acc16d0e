"""A message that kills its worker is isolated and failed; all others arrive once."""

import asyncio
from collections import Counter

from sqlalchemy import select

from mailwright.domain.states import Status
from mailwright.outbox.claim import MAX_CLAIMS
from mailwright.storage.tables import message_dead_letters
from tests.builders import a_message, a_newsletter
from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.poisoned_worker import POISON
from tests.faults.processes import TookTooLong
from tests.faults.stage import Stage
from tests.standins.smtp_sink import SmtpSink, Step

MOST_RESTARTS = 40


async def before_the_attempt(stage: Stage, *, innocents: int, workers: int = 2) -> Figures:
    """It kills during the build: nothing was handed over, so nothing is in doubt."""
    figures = Figures()
    await stage.open_sink()
    poison = a_message(to=POISON)
    half = innocents // 2
    await stage.accept_all([*(a_message() for _ in range(half)), poison, *(a_newsletter() for _ in range(half))])
    restarts = await _keep_running(stage, ["-m", "tests.faults.poisoned_worker"], workers)

    found = (await standing(stage))[poison.outbox_id]
    async with stage.database.read() as tx:
        dead_letter_list = [(row.message_key, row.code) for row in await tx.execute(select(message_dead_letters))]
    times = stage.received()
    figures.expect(
        "dead letters",
        dead_letter_list,
        "the poison alone",
        when=dead_letter_list == [(found.message_key, "POISON_MESSAGE")],
    )
    figures.at_most("workers that died before it was put aside", restarts, MAX_CLAIMS)
    others = [key for key in stage.accepted if key != poison.outbox_id]
    # The first crash leaves the window in flight in doubt.
    rows = await standing(stage)
    lost = [key for key in others if not times[key] and not rows[key].is_bulk]
    figures.none("others that did not arrive, but for bulk in doubt", lost)
    await compare(stage, figures, failed=1)
    return figures


async def during_the_attempt(stage: Stage, *, innocents: int) -> Figures:
    """It kills during the send: the message is in doubt."""
    figures = Figures()
    poison = a_message(to=POISON)
    half = innocents // 2
    await stage.accept_all(
        [*(a_message() for _ in range(half)), poison, *(a_message() for _ in range(innocents - half))]
    )
    async with SmtpSink() as sink:
        stage.smtp_url = f"{sink.url}?tls=none"
        deaths = 0

        def die() -> None:
            nonlocal deaths
            deaths += 1
            worker.kill()

        for turn in range(1, MOST_RESTARTS):
            sink.call(Step.RCPT, die, recipient=POISON, nth=turn)
        worker = await stage.working()
        for _ in range(MOST_RESTARTS):
            if worker.exit_code is not None:
                worker = await stage.working()
            if not await stage.remaining():
                break
            await asyncio.sleep(0.5)
        worker.kill()
        times = Counter(recipient for message in sink.complete for recipient in message.recipients)

    rows = await standing(stage)
    found = rows.pop(poison.outbox_id)
    figures.expect("workers that died of it", deaths, "2: sent, and sent again once", when=deaths == 2)
    figures.expect("the poison", found.status, "held in doubt", when=found.status == Status.IN_DOUBT)
    figures.none("others not sent", [key for key, row in rows.items() if row.status != Status.SENT])
    figures.none("others that did not arrive", [row.to_email for row in rows.values() if not times[row.to_email]])
    doubled = [row.to_email for row in rows.values() if times[row.to_email] > 1 + row.resends]
    figures.none("unreported duplicates", doubled)
    return figures


async def _keep_running(stage: Stage, words: list[str], workers: int) -> int:
    """Restart crashed workers like a supervisor; return how often."""
    running = [stage.start("worker", words) for _ in range(workers)]
    deaths = idle = 0
    while idle < 2 and deaths < MOST_RESTARTS:
        for index, worker in enumerate(running):
            if worker.exit_code is not None:
                deaths += 1
                running[index] = stage.start("worker", words)
        idle = 0 if await stage.remaining() else idle + 1
        await asyncio.sleep(0.2)
    for worker in running:
        worker.kill()
    if deaths >= MOST_RESTARTS:
        raise TookTooLong(f"the poison still kills after {deaths} workers")
    return deaths
