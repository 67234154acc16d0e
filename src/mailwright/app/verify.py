"""Verify the settings: all problems that would stop an installation from sending, in one error."""

from mailwright.access.oidc_settings import oidc_settings
from mailwright.app.databases import valkey_client
from mailwright.app.default_sender import make_signer, sender_of
from mailwright.app.dns_lookup import make_lookup
from mailwright.app.inbound import verify_inbound
from mailwright.app.limits import domain_limits, lifetimes
from mailwright.app.profiles import verify_profiles
from mailwright.app.providers import verify_providers
from mailwright.app.s3_images import s3_settings
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, setting_problem
from mailwright.domain.frequency import parse_frequency_cap
from mailwright.ops.settings import Settings
from mailwright.sources.mailouts.verify import verify_mailouts
from mailwright.storage.database import parse_replica_url, parse_url


def verify(settings: Settings) -> None:
    """Validate all settings that services interpret; raise one error with every problem."""
    problems: list[str] = []
    checks = (
        _database_addresses,
        _valkey_address,
        make_signer,
        _dns_servers,
        sender_of,
        oidc_settings,
        verify_providers,
        domain_limits,
        lifetimes,
        _frequency_cap,
        verify_inbound,
        verify_mailouts,
        verify_profiles,
        s3_settings,
    )
    for check in checks:
        try:
            check(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(*problems)


def _frequency_cap(settings: Settings) -> None:
    try:
        parse_frequency_cap(settings.frequency_cap)
    except InvalidInput as error:
        raise ConfigurationInvalid(setting_problem("MAILWRIGHT_FREQUENCY_CAP", error.text)) from error


def _database_addresses(settings: Settings) -> None:
    url = parse_url(settings.database_url)
    if settings.database_direct_url is not None:
        direct = parse_url(settings.database_direct_url, "MAILWRIGHT_DATABASE_DIRECT_URL")
        if (direct.get_backend_name(), direct.database) != (url.get_backend_name(), url.database):
            raise ConfigurationInvalid(
                "MAILWRIGHT_DATABASE_DIRECT_URL: must name the same database as MAILWRIGHT_DATABASE_URL"
            )
    if settings.database_read_url is not None:
        parse_replica_url(settings.database_read_url, url)
    if settings.notify_database_url is not None:
        parse_url(settings.notify_database_url, "MAILWRIGHT_NOTIFY_DATABASE_URL")
    if settings.outbox_database_url is not None:
        parse_url(settings.outbox_database_url, "MAILWRIGHT_OUTBOX_DATABASE_URL")


def _dns_servers(settings: Settings) -> None:
    make_lookup(settings.dns_servers)


def _valkey_address(settings: Settings) -> None:
    valkey_client(settings.redis_url)
