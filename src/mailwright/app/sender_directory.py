"""Wire the directory of senders: the domains in the settings, and the verified ones of tenants."""

from mailwright.content.headers import parse_mailbox
from mailwright.domain import address
from mailwright.domain.clock import Clock
from mailwright.domain.sender_domains import SenderDomains
from mailwright.domain.sender_policy import InstallationSenders
from mailwright.ops.settings import Settings
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.storage.database import Database


def make_directory(settings: Settings, database: Database, clock: Clock) -> SenderDirectory:
    required = settings.require_sender_domains
    own = InstallationSenders(
        settings.sender,
        sender_domains(settings).names,
        requires_verified=required is True,
        separates_tenants=required == "auto",
    )
    return SenderDirectory(database, clock, own)


def sender_domains(settings: Settings) -> SenderDomains:
    """Return the domains of the configured senders and of DKIM. The default sender adds no domain."""
    senders = [parse_mailbox(settings.sender).address, settings.from_email or ""]
    domains = [*map(address.domain_of, senders), settings.dkim_domain or "", *settings.sender_domains]
    return SenderDomains(domain for domain in domains if domain and not domain.endswith("localhost"))
