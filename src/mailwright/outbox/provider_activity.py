"""How much each provider sent in each hour, and when its last event arrived, so that a silent provider is noticed."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.outbox.ledger import ADD_TO_COUNTER, OPEN_COUNTER, SET_COUNTER, read_counters
from mailwright.storage.database import Database, Transaction

log = logger(__name__)

# An event is stored at most this often for each provider, because health needs only the rough time.
STORE_EVERY: Final[Instant] = MINUTE
_SENT_KEPT: Final[Instant] = 2 * DAY
_EVENT_KEPT: Final[Instant] = 90 * DAY


@dataclass(frozen=True, slots=True)
class ProviderActivity:
    """The activity of a provider: the number of messages that it accepted 1 to 24 hours ago, and when its last event
    arrived.
    """

    sent: int = 0
    last_event: Instant | None = None

    def is_silent(self, now: Instant, *, min_sent: int) -> bool:
        """Whether no event arrived in a day in which the provider accepted at least this many messages."""
        return self.sent >= min_sent and (self.last_event is None or self.last_event < now - DAY)


async def add_sent(tx: Transaction, sent: Mapping[str, int], now: Instant) -> None:
    """Count messages that providers accepted. Always in the same order, so that two workers cannot deadlock."""
    for provider, count in sorted(sent.items()):
        if count > 0:
            name = _sent_name(provider, now - now % HOUR)
            await tx.run(OPEN_COUNTER, name=name, expires_at=now + _SENT_KEPT)
            await tx.run(ADD_TO_COUNTER, name=name, count=count)


async def load_activity(database: Database, providers: Iterable[str], now: Instant) -> dict[str, ProviderActivity]:
    """Return the activity of these providers.

    Messages of the last hour do not count, because their events may still arrive.
    """
    names = sorted(providers)
    newest = now - now % HOUR - 2 * HOUR
    hours = range(now - DAY - now % HOUR, newest + 1, HOUR)
    wanted = [*(_sent_name(each, hour) for each in names for hour in hours), *map(_event_name, names)]
    async with database.read() as tx:
        known = await read_counters(tx, wanted) if names else {}
    sent = {each: sum(known.get(_sent_name(each, hour), 0) for hour in hours) for each in names}
    return {each: ProviderActivity(sent[each], known.get(_event_name(each))) for each in names}


class ProviderEvents:
    """Stores when the last event of each provider arrived."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._stored: dict[str, Instant] = {}

    async def record(self, providers: Collection[str]) -> None:
        """Store that events of these providers arrived.

        A failure is only logged, because the events themselves are stored.
        """
        now = self._clock.now()
        # If the clock was set back, store the time at once.
        due = sorted(name for name in providers if not 0 <= now - self._stored.get(name, 0) < STORE_EVERY)
        if not due:
            return
        try:
            async with self._database.write() as tx:
                for name in due:
                    counter = {"name": _event_name(name), "expires_at": now + _EVENT_KEPT}
                    await tx.run(OPEN_COUNTER, **counter)
                    await tx.run(SET_COUNTER, **counter, used=now)
        except NotDurable as error:
            log.warning("provider_events_not_stored", reason=str(error))
        else:
            self._stored |= dict.fromkeys(due, now)


def _sent_name(provider: str, hour: Instant) -> str:
    return f"provider-sent:{provider}:{hour}"


def _event_name(provider: str) -> str:
    return f"provider-event:{provider}"
