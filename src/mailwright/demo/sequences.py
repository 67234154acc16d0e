"""A running sequence of the shop, with people at several of its steps."""

from typing import Final

from mailwright.app.wiring import Engine, build_engine, make_worker
from mailwright.demo.campaigns import NEWS
from mailwright.domain.clock import DAY, HOUR, ManualClock
from mailwright.outbox.audit_log import CONSOLE
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.ready import ReadySequences
from mailwright.sources.sequences.runner import SequenceRunner

# Who entered, and how many days ago. Emails wait for the morning of a working day, so these days make the number of
# emails independent of the current weekday.
_ENTERED: Final = {
    "mary@example.com": 14,
    "frances@example.com": 14,
    "sofja@example.com": 6,
    "wang@example.com": 6,
    "karen@example.com": 1,
    "annie@example.com": 1,
}
_BEGAN: Final = 15
_STEP: Final = 6 * HOUR


async def load_sequence(engine: Engine, tenant_id: int) -> None:
    """Publish the welcome series some days ago, and let people enter, take their steps and get emails until now."""
    end = engine.clock.now()
    clock = ManualClock(end - _BEGAN * DAY)
    past = build_engine(engine.settings, clock, engine.database)
    sequences = past.sequences
    ready = ReadySequences(past.database, clock, past.templates, sequences)
    runner = SequenceRunner(past.database, clock, past.templates, past.settings.timezone)
    created = await ready.create(tenant_id, "welcome", list_key=NEWS, actor=CONSOLE)
    await sequences.publish(tenant_id, created.sequence_id, actor=CONSOLE)
    entered: set[str] = set()
    while clock.now() < end:
        clock.advance(min(_STEP, end - clock.now()))
        new = {email for email, days in _ENTERED.items() if clock.now() >= end - days * DAY} - entered
        if new:
            await sequences.enrolments.enrol(tenant_id, created.sequence_id, People(sorted(new)), actor=CONSOLE)
            entered |= new
        has_emails = False
        while await runner.tick():
            has_emails = True
        if has_emails and clock.now() < end:
            await (await make_worker(past)).run(drain=True)
    await past.close()
    await ready.create(tenant_id, "review-request", list_key=NEWS, actor=CONSOLE)
