"""Build the providers named in the settings and join them in one route."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from pydantic import SecretStr

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.child_process import own_share
from mailwright.ops.settings import ProviderName, Settings
from mailwright.providers.circuit_breaker import CircuitBreaker
from mailwright.providers.mailbox import MailboxProvider
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route, RouteMember, parse_route
from mailwright.providers.smtp import Smtp, SmtpSettings, parse_smtp_url

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient
    from mailwright.providers.sendgrid import SendGridSettings
    from mailwright.providers.ses import SesSettings
    from mailwright.providers.smtpbz import SmtpBzSettings

# The HTTP providers take 0.1 s to import, so the functions below import them only when needed.


def make_route(settings: Settings, clock: Clock) -> Route:
    weights = providers_of(settings)
    http = _http(settings) if weights.keys() & {"ses", "sendgrid", "smtpbz"} else None
    members = [
        RouteMember(make_provider(name, settings, clock, http), CircuitBreaker(clock), weight)
        for name, weight in weights.items()
    ]
    return Route(members, clock, shared=http)


def make_provider(name: str, settings: Settings, clock: Clock, http: "HttpClient | None" = None) -> Provider:
    """Build a provider by name. A new provider needs one case here."""
    match name:
        case "mailbox":
            return MailboxProvider(settings.mailbox, clock)
        case "smtp":
            return Smtp(smtp_settings(settings), clock=clock)
    http = http or _http(settings)
    match name:
        case "ses":
            from mailwright.providers.ses import Ses  # noqa: PLC0415 - see above

            return Ses(ses_settings(settings), http, clock, reports_events=_receives_ses_events(settings))
        case "sendgrid":
            from mailwright.providers.sendgrid import SendGrid  # noqa: PLC0415 - see above

            reports_events = settings.sendgrid_webhook_public_key is not None
            return SendGrid(sendgrid_settings(settings), http, clock, reports_events=reports_events)
        case "smtpbz":
            from mailwright.providers.smtpbz import SmtpBz  # noqa: PLC0415 - see above

            return SmtpBz(smtpbz_settings(settings), http, clock=clock)
    raise ConfigurationInvalid(f"MAILWRIGHT_PROVIDER: unknown provider {name!r}")


def providers_of(settings: Settings) -> Mapping[str, int | None]:
    """Return the configured providers with their weights."""
    if settings.route is None:
        return {settings.provider: None}
    return parse_route(settings.route, get_args(ProviderName))


def verify_providers(settings: Settings) -> None:
    """Raise one error with every missing setting of every provider."""
    problems: list[str] = []
    for name in providers_of(settings):
        try:
            if name in SETTINGS_BY_PROVIDER:
                SETTINGS_BY_PROVIDER[name](settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(*problems)


def smtp_settings(settings: Settings) -> SmtpSettings:
    return _smtp("smtp", "MAILWRIGHT_SMTP_URL", settings.smtp_url, settings)


def ses_settings(settings: Settings) -> "SesSettings":
    from mailwright.providers.ses import SesSettings  # noqa: PLC0415 - see above

    if settings.aws_region is None:
        raise _needed("AWS_REGION", "ses", settings)
    with _about("AWS_REGION, SES_CONFIGURATION_SET, MAILWRIGHT_SES_URL"):
        return SesSettings(settings.aws_region, settings.ses_url, settings.ses_configuration_set)


def sendgrid_settings(settings: Settings) -> "SendGridSettings":
    from mailwright.providers.sendgrid import SendGridSettings  # noqa: PLC0415 - see above

    if settings.sendgrid_api_key is None:
        raise _needed("SENDGRID_API_KEY", "sendgrid", settings)
    with _about("SENDGRID_API_KEY, MAILWRIGHT_SENDGRID_URL"):
        return SendGridSettings(settings.sendgrid_api_key.get_secret_value(), settings.sendgrid_url)


def smtpbz_settings(settings: Settings) -> "SmtpBzSettings":
    from mailwright.providers.smtpbz import SmtpBzSettings  # noqa: PLC0415 - see above

    smtp = _smtp("smtpbz", *_smtpbz_url(settings), settings)
    key = settings.smtpbz_api_key
    with _about("SMTPBZ_API_KEY, MAILWRIGHT_SMTPBZ_URL"):
        return SmtpBzSettings(smtp, key.get_secret_value() if key else None, settings.smtpbz_url)


def _smtpbz_url(settings: Settings) -> tuple[str, SecretStr | None]:
    """Return SMTPBZ_SMTP_URL, or the general SMTP URL if `smtp` is not in the route."""
    if settings.smtpbz_smtp_url is None and settings.smtp_url is not None and "smtp" not in providers_of(settings):
        return "MAILWRIGHT_SMTP_URL", settings.smtp_url
    return "SMTPBZ_SMTP_URL", settings.smtpbz_smtp_url


def _receives_ses_events(settings: Settings) -> bool:
    """Return whether SES events can reach Mailwright."""
    return bool(settings.sns_topic_arns or settings.sqs_queue_url or settings.ses_configuration_set)


SETTINGS_BY_PROVIDER: Mapping[str, Callable[[Settings], object]] = {
    "smtp": smtp_settings,
    "ses": ses_settings,
    "sendgrid": sendgrid_settings,
    "smtpbz": smtpbz_settings,
}


def _smtp(provider: str, name: str, url: SecretStr | None, settings: Settings) -> SmtpSettings:
    if url is None:
        raise _needed(name, provider, settings)
    with _about(name):
        parsed = parse_smtp_url(url.get_secret_value())
    limit = settings.smtp_connections or parsed.connections
    return replace(parsed, connections=limit and own_share(limit, "MAILWRIGHT_SMTP_CONNECTIONS"))


def _http(settings: Settings) -> "HttpClient":
    from mailwright.providers.http import HttpClient  # noqa: PLC0415 - see above

    return HttpClient(connections=settings.concurrency)


def _needed(name: str, provider: str, settings: Settings) -> ConfigurationInvalid:
    wanted = "MAILWRIGHT_PROVIDER is" if settings.route is None else "MAILWRIGHT_ROUTE has"
    return ConfigurationInvalid(f"{name}: is required when {wanted} {provider}")


@contextmanager
def _about(names: str) -> Iterator[None]:
    """Prefix configuration errors with the names of the settings."""
    try:
        yield
    except ConfigurationInvalid as error:
        raise ConfigurationInvalid(*(f"{names}: {problem}" for problem in error.problems)) from error
