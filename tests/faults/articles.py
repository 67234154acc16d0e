"""Kill workers while an article is enqueued and sent: the batch completes without duplicates."""

import asyncio
import random
from collections import Counter

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SystemClock
from mailwright.domain.states import Status
from mailwright.sources.articles.runs import ArticleRuns
from mailwright.sources.articles.slices import SliceStore
from tests.articles import ACTOR, OHIO, US, a_run_request, the_slices
from tests.builders import DEFAULT_TENANT, a_subscriber
from tests.campaigns import address_of
from tests.faults.figures import Figures
from tests.faults.processes import until
from tests.faults.stage import Stage
from tests.standins.http import Request
from tests.standins.sendgrid import KEY, SendGridStandIn

WINDOW = 64
SEED = 20_270_115


async def run(stage: Stage, *, kills: int, readers: int) -> Figures:
    figures, chance, clock = Figures(), random.Random(SEED), SystemClock()
    templates = TemplateStore(stage.database, clock)
    await SliceStore(stage.database, clock, templates).put(ACTOR, DEFAULT_TENANT, the_slices())
    for number in range(readers):
        places = f'["{US}", "{OHIO}"]' if number % 2 else f'["{US}"]'
        await a_subscriber(stage.database, address_of(number), attributes=f'{{"ocd_ids": {places}}}')
    async with SlowSendGrid() as sendgrid:
        stage.settings |= {
            "MAILWRIGHT_PROVIDER": "sendgrid",
            "SENDGRID_API_KEY": KEY,
            "MAILWRIGHT_SENDGRID_URL": sendgrid.url,
        }
        runs = ArticleRuns(stage.database, clock, templates)
        begun, _ = await runs.start(ACTOR, DEFAULT_TENANT, a_run_request())
        worker = await stage.working()
        for number in range(kills):
            taken = readers * (number + 1) // (kills + 2)
            await until(lambda enough=taken: len(sendgrid.messages) >= enough, 60, "messages to be sent")
            await asyncio.sleep(chance.uniform(0.0, 0.02))
            worker.kill()
            again, is_replay = await runs.start(ACTOR, DEFAULT_TENANT, a_run_request())
            figures.expect("batch again", "the same run", "the same run", when=is_replay and again.id == begun.id)
            worker = await stage.working()
        await stage.all_done(seconds=60)
        received = Counter(message["personalizations"][0]["to"][0]["email"] for message in sendgrid.messages)
    ended = await runs.find(DEFAULT_TENANT, begun.run_id)
    counts = await runs.count_messages(ended)
    doubtful = counts.get(Status.IN_DOUBT, 0)
    told = counts.get(Status.SENT, 0) + doubtful
    figures.note("kills", kills)
    figures.none("readers who got it twice", [email for email, number in received.items() if number > 1])
    figures.expect("readers with a message", ended.recipients, f"{readers}", when=ended.recipients == readers)
    figures.expect("sent or in doubt", told, f"{readers}", when=told == readers)
    figures.at_most("readers who got nothing and are not in doubt", readers - len(received) - doubtful, 0)
    figures.at_most("in doubt", doubtful, kills * WINDOW)
    figures.none("audits that did not add up", int(not await stage.identity_holds()))
    return figures


class SlowSendGrid(SendGridStandIn):
    """Respond slowly, so that a killed worker has messages in flight."""

    async def respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        await super().respond(request, writer)
