"""Sequences with the rules of the settings. Commands need them without the engine, which takes long to import."""

from mailwright.app.limits import defaults_of, lifetimes
from mailwright.app.providers import providers_of
from mailwright.domain.clock import Clock
from mailwright.ops.settings import Settings
from mailwright.sources.sequences.sequences import Sequences
from mailwright.sources.sequences.simulated_sending import SendingRules
from mailwright.storage.database import Database


def make_sequences(settings: Settings, database: Database, clock: Clock) -> Sequences:
    rules = SendingRules(defaults_of(settings, providers_of(settings)), lifetimes(settings))
    return Sequences(database, clock, rules)
