"""Resume sending that was held because the database was restored to an earlier state."""

from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import Resolution
from mailwright.outbox.quarantine import EVERYTHING, QuarantineFilter, resolve_quarantined
from mailwright.outbox.sending_hold import DueMessages, release_hold, require_hold
from mailwright.sources.campaigns.restored import pause_repeats, pause_running_campaigns
from mailwright.sources.sequences.restored import pause_sequences
from mailwright.storage.database import Database


@dataclass(frozen=True, slots=True)
class PausedSends:
    """The ids of the campaigns that were paused, and the tenants and ids of the sequences."""

    campaigns: tuple[str, ...] = ()
    sequences: tuple[tuple[str, str], ...] = ()


async def release_sending(database: Database, clock: Clock, *, actor: str, due: DueMessages) -> tuple[int, PausedSends]:
    """Resume sending; return the number of messages put in doubt, and what was paused.

    All running and scheduled campaigns are paused first: recipients who have no message yet may have received them
    after the backup. Running sequences and recurring campaigns are paused for the same reason.
    """
    await require_hold(database)  # Nothing is paused if someone else has decided already.
    paused = await pause_sends(database, clock, actor=actor)
    return await release_hold(database, clock, actor=actor, due=due), paused


async def pause_sends(database: Database, clock: Clock, *, actor: str) -> PausedSends:
    """Pause everything that creates bulk email: campaigns, recurring campaigns and sequences."""
    paused = await pause_running_campaigns(database, clock)
    async with database.write() as tx:
        await pause_repeats(tx, clock.now(), actor=actor)
        return PausedSends(paused, await pause_sequences(tx, clock.now(), actor=actor))


async def decide_quarantine(
    database: Database,
    clock: Clock,
    resolution: Resolution,
    *,
    was_held: bool,
    actor: str,
    only: QuarantineFilter = EVERYTHING,
) -> tuple[int, PausedSends]:
    """Resume sending, and send or close the messages that may have been sent.

    Return the number of messages, and what was paused. `was_held` is the hold that the operator has seen. If someone
    else has resumed sending since then, nothing is changed.
    """
    paused = PausedSends()
    if was_held:
        _, paused = await release_sending(database, clock, actor=actor, due=DueMessages.IN_DOUBT)
    return await resolve_quarantined(database, clock, resolution, actor=actor, only=only), paused
