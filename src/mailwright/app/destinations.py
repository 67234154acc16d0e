"""Where the configured providers deliver email to: to recipients, to a server that only collects it, or nowhere."""

from collections.abc import Collection, Mapping

from mailwright.app.named_providers import NamedProviders, load_named
from mailwright.domain.sending_readiness import Destination
from mailwright.domain.translation import lazy_join
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import text_of
from mailwright.outbox.explain import LOCAL_PROVIDERS
from mailwright.providers.purpose import collects_test_email
from mailwright.providers.route import providers_of
from mailwright.storage.database import Database


def destination_of(settings: Settings) -> Destination:
    """Return where the providers in these settings deliver email to.

    A server on this machine delivers: a local Postfix is the most common relay.
    """
    found = {provider_destination(name, settings) for name in providers_of(settings)}
    order = (Destination.RECIPIENTS, Destination.TEST_SERVER, Destination.LOCAL_MAILBOX)
    return next(each for each in order if each in found)


def destinations_of(settings: Settings, named: NamedProviders) -> Mapping[str, Destination]:
    """Return where each provider delivers email to, by the name that is stored with its messages."""
    found = {name: provider_destination(name, settings) for name in providers_of(settings)}
    used = {each.name: each.settings for each in named.by_name.values() if each.problem is None}
    return LOCAL_PROVIDERS | found | {name: destination_of(own) for name, own in used.items()}


async def find_sent_to(settings: Settings, database: Database, through: Collection[str]) -> Destination | None:
    """Return where messages went that these providers sent; None without messages."""
    if not through:
        return None
    destinations = destinations_of(settings, await load_named(database, settings))
    found = {destinations.get(name, Destination.RECIPIENTS) for name in through}
    return Destination.MIXED if len(found) > 1 else next(iter(found), None)


def provider_label(settings: Settings) -> str:
    """Return the names of the providers for people, in the order of the route."""
    return lazy_join(", ", [KINDS[name].label for name in providers_of(settings)])


def is_local_only(settings: Settings) -> bool:
    """Return whether every message of these providers goes to the local mailbox."""
    return destination_of(settings) is Destination.LOCAL_MAILBOX


def provider_destination(name: str, settings: Settings) -> Destination:
    kind = KINDS[name]
    if kind.is_local:
        return Destination.LOCAL_MAILBOX
    url = next((url for each in kind.server_urls if (url := getattr(settings, each)) is not None), None)
    is_test = url is not None and collects_test_email(text_of(url))
    return Destination.TEST_SERVER if is_test else Destination.RECIPIENTS
