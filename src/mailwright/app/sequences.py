"""Create the `Sequences` object from the settings. Commands use this instead of the engine, whose import is slow."""

from collections.abc import Sequence

from mailwright.app.limits import defaults_of, lifetimes
from mailwright.content.blocks.feed import FeedItem
from mailwright.domain.clock import Clock
from mailwright.ops.settings import Settings
from mailwright.providers.route import providers_of
from mailwright.sources.sequences.sequences import Sequences
from mailwright.sources.sequences.simulated_sending import SendingRules
from mailwright.storage.database import Database


def make_sequences(settings: Settings, database: Database, clock: Clock) -> Sequences:
    rules = SendingRules(
        defaults_of(settings, providers_of(settings)), lifetimes(settings), settings.sender_postal_address
    )
    return Sequences(database, clock, rules, fetch_feed=_fetch_feed)


async def _fetch_feed(url: str) -> Sequence[FeedItem]:
    from mailwright.app.feeds import fetch_feed  # noqa: PLC0415 - slow to import, and rarely needed

    return await fetch_feed(url)
