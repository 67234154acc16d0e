"""Kill workers while they adopt another provider: nothing is lost, and every duplicate is recorded as possible."""

import asyncio
import random

from mailwright.app.stored_settings import change_settings
from mailwright.domain.clock import SystemClock
from mailwright.storage.database import Database
from mailwright.storage.secret_box import SecretBox
from tests.builders import SECRET_KEY, settings_for
from tests.faults.books import compare
from tests.faults.figures import Figures
from tests.faults.processes import until
from tests.faults.stage import Stage

SEED = 20_261_116
# Long enough that attempts are on connections of the old server while the worker changes to the new one.
LATENCY_SECONDS = 0.1
PATIENCE_SECONDS = 100


async def run(stage: Stage, *, kills: int, messages: int) -> Figures:
    figures, chance = Figures(), random.Random(SEED)
    urls = []
    for _ in range(2):
        await stage.open_sink(LATENCY_SECONDS)
        urls.append(stage.smtp_url)
    # Only the database names the provider.
    stage.settings = {"MAILWRIGHT_PROVIDER": "", "MAILWRIGHT_SMTP_URL": "", "MAILWRIGHT_SECRET_KEY": SECRET_KEY}
    adopted = 0
    await _store(stage, urls[0])
    for turn in range(1, kills + 1):
        worker = await stage.working()
        before = stage.received().total()
        await stage.accept(messages // kills)
        await until(lambda: stage.received().total() > before, PATIENCE_SECONDS, "a message")  # noqa: B023
        await _store(stage, urls[turn % 2])
        await worker.says("settings_changed", PATIENCE_SECONDS)
        await asyncio.sleep(chance.uniform(0.0, 3 * LATENCY_SECONDS))
        worker.kill()
        adopted += "settings_changed" in worker.said
    last = await stage.working()
    await stage.all_done(PATIENCE_SECONDS)
    last.kill()
    figures.expect("workers killed after the change", adopted, f"{kills}", when=adopted == kills)
    await compare(stage, figures)
    return figures


async def _store(stage: Stage, url: str) -> None:
    """Store the provider, as the dashboard does."""
    database = Database(stage.url, secret_box=SecretBox(SECRET_KEY))
    # Few connections, so that most messages still wait when the worker changes.
    changes = {"provider": "smtp", "smtp_url": f"{url}&connections=4"}
    try:
        await change_settings(settings_for(stage.url), database, SystemClock(), changes, actor="faults")
    finally:
        await database.close()
