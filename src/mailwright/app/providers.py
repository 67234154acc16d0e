"""Build the providers named in the settings and join them in one route."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from pydantic import SecretStr

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.child_process import own_share
from mailwright.ops.settings import ProviderName, Settings
from mailwright.providers.circuit_breaker import CircuitBreaker
from mailwright.providers.mailbox import MailboxProvider
from mailwright.providers.protocol import Provider
from mailwright.providers.purpose import without_purpose
from mailwright.providers.route import Route, RouteMember, parse_route
from mailwright.providers.smtp import Smtp, SmtpAuth, SmtpSettings, parse_smtp_url

if TYPE_CHECKING:
    from mailwright.providers.aws import AwsKeyChain
    from mailwright.providers.http import HttpClient
    from mailwright.providers.mailgun import MailgunSettings
    from mailwright.providers.oauth import OAuthSettings
    from mailwright.providers.postmark import PostmarkSettings
    from mailwright.providers.resend import ResendSettings
    from mailwright.providers.sendgrid import SendGridSettings
    from mailwright.providers.ses import SesSettings
    from mailwright.providers.smtpbz import SmtpBzSettings

# The HTTP providers take 0.1 s to import, so the functions below import them only when needed.


def make_route(settings: Settings, clock: Clock, own_name: str | None = None) -> Route:
    """Build the route. `own_name` is the name of a provider that is configured for some tenants only."""
    weights = providers_of(settings)
    needs_http = _has_oauth(settings) or not weights.keys() <= {"mailbox", "smtp", "brevo"}
    http = _http(settings) if needs_http else None
    members = [
        RouteMember(make_provider(name, settings, clock, http), CircuitBreaker(clock), weight, own_name)
        for name, weight in weights.items()
    ]
    return Route(members, clock, shared=http)


# The setting without which a provider reports no events.
_EVENT_SETTINGS: Mapping[str, str] = {
    "sendgrid": "sendgrid_webhook_public_key",
    "mailgun": "mailgun_webhook_signing_key",
    "resend": "resend_webhook_secret",
    "postmark": "postmark_webhook_secret",
    "brevo": "brevo_webhook_secret",
}


def reports_events(name: str, settings: Settings) -> bool:
    """Return whether this provider is set up to report events."""
    if name == "ses":
        return bool(settings.sns_topic_arns or settings.sqs_queue_url or settings.ses_configuration_set)
    return name in _EVENT_SETTINGS and getattr(settings, _EVENT_SETTINGS[name]) is not None


def make_provider(name: str, settings: Settings, clock: Clock, http: "HttpClient | None" = None) -> Provider:
    """Build a provider by name. A new provider needs one case here."""
    match name:
        case "mailbox":
            return MailboxProvider(settings.mailbox, clock)
        case "smtp":
            return Smtp(_with_tokens(smtp_settings(settings), settings, clock, http), clock=clock)
        case "brevo":
            from mailwright.providers.brevo import Brevo  # noqa: PLC0415 - rarely needed

            return Brevo(brevo_settings(settings), clock=clock, reports_events=reports_events(name, settings))
    return _make_api_provider(name, settings, clock, http or _http(settings))


def _make_api_provider(name: str, settings: Settings, clock: Clock, http: "HttpClient") -> Provider:
    reports = reports_events(name, settings)
    match name:
        case "ses":
            from mailwright.providers.ses import Ses  # noqa: PLC0415 - see above

            return Ses(ses_settings(settings), http, clock, aws_keys(settings, clock), reports_events=reports)
        case "sendgrid":
            from mailwright.providers.sendgrid import SendGrid  # noqa: PLC0415 - see above

            return SendGrid(sendgrid_settings(settings), http, clock, reports_events=reports)
        case "smtpbz":
            from mailwright.providers.smtpbz import SmtpBz  # noqa: PLC0415 - see above

            return SmtpBz(smtpbz_settings(settings), http, clock=clock)
        case "mailgun":
            from mailwright.providers.mailgun import Mailgun  # noqa: PLC0415 - see above

            return Mailgun(mailgun_settings(settings), http, clock, reports_events=reports)
        case "resend":
            from mailwright.providers.resend import Resend  # noqa: PLC0415 - see above

            return Resend(resend_settings(settings), http, clock, reports_events=reports)
        case "postmark":
            from mailwright.providers.postmark import Postmark  # noqa: PLC0415 - see above

            return Postmark(postmark_settings(settings), http, clock, reports_events=reports)
    raise ConfigurationInvalid(
        setting_problem("MAILWRIGHT_PROVIDER", lazy_gettext("unknown provider {name}", name=repr(name)))
    )


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
    found = _smtp("smtp", "MAILWRIGHT_SMTP_URL", settings.smtp_url, settings)
    if found.auth is SmtpAuth.XOAUTH2 and oauth_settings(settings, found.user or "") is None:
        raise ConfigurationInvalid(
            setting_problem(
                "MAILWRIGHT_OAUTH_TOKEN_URL",
                lazy_gettext(
                    "is required when MAILWRIGHT_SMTP_URL has auth=xoauth2, together with "
                    "MAILWRIGHT_OAUTH_CLIENT_ID; or set MAILWRIGHT_OAUTH_SERVICE_ACCOUNT"
                ),
            )
        )
    return found


def _has_oauth(settings: Settings) -> bool:
    return settings.oauth_token_url is not None or settings.oauth_service_account is not None


def oauth_settings(settings: Settings, user: str) -> "OAuthSettings | None":
    """Return where access tokens of this user of SMTP or IMAP come from; None if it is not configured."""
    if settings.oauth_service_account is not None:
        return _service_account(settings.oauth_service_account.get_secret_value(), settings, user)
    if settings.oauth_token_url is None or settings.oauth_client_id is None:
        return None
    from mailwright.providers.oauth import OAuthSettings  # noqa: PLC0415 - see above

    secret, refresh = settings.oauth_client_secret, settings.oauth_refresh_token
    with _about("MAILWRIGHT_OAUTH_TOKEN_URL, MAILWRIGHT_OAUTH_CLIENT_SECRET, MAILWRIGHT_OAUTH_REFRESH_TOKEN"):
        return OAuthSettings(
            settings.oauth_token_url,
            settings.oauth_client_id,
            None if secret is None else secret.get_secret_value(),
            None if refresh is None else refresh.get_secret_value(),
            settings.oauth_scope,
        )


def _service_account(text: str, settings: Settings, user: str) -> "OAuthSettings":
    from mailwright.providers.oauth import OAuthSettings, ServiceAccount  # noqa: PLC0415 - see above

    with _about("MAILWRIGHT_OAUTH_SERVICE_ACCOUNT"):
        account = ServiceAccount.parse(text, user)
        return OAuthSettings(account.token_url, account.email, scope=settings.oauth_scope, service_account=account)


def _with_tokens(smtp: SmtpSettings, settings: Settings, clock: Clock, http: "HttpClient | None") -> SmtpSettings:
    oauth = oauth_settings(settings, smtp.user or "") if smtp.auth is SmtpAuth.XOAUTH2 else None
    if oauth is None:
        return smtp
    from mailwright.providers.oauth import OAuthTokens  # noqa: PLC0415 - see above

    return replace(smtp, tokens=OAuthTokens(oauth, http or _http(settings), clock))


def ses_settings(settings: Settings) -> "SesSettings":
    from mailwright.providers.ses import SesSettings  # noqa: PLC0415 - see above

    if settings.aws_region is None:
        raise _needed("AWS_REGION", "ses", settings)
    if (settings.aws_access_key_id is None) != (settings.aws_secret_access_key is None):
        raise ConfigurationInvalid(
            setting_problem("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY", lazy_gettext("set both, or neither"))
        )
    with _about("AWS_REGION, SES_CONFIGURATION_SET, MAILWRIGHT_SES_URL"):
        return SesSettings(settings.aws_region, _for_requests(settings.ses_url), settings.ses_configuration_set)


def _for_requests(url: str | None) -> str | None:
    return None if url is None else without_purpose(url)


def aws_keys(settings: Settings, clock: Clock) -> "AwsKeyChain":
    from mailwright.providers.aws import AwsKeyChain, AwsKeys  # noqa: PLC0415 - see above

    key, secret = settings.aws_access_key_id, settings.aws_secret_access_key
    given = AwsKeys(key, secret.get_secret_value()) if key is not None and secret is not None else None
    return AwsKeyChain(clock, given=given)


def sendgrid_settings(settings: Settings) -> "SendGridSettings":
    from mailwright.providers.sendgrid import SendGridSettings  # noqa: PLC0415 - see above

    if settings.sendgrid_api_key is None:
        raise _needed("SENDGRID_API_KEY", "sendgrid", settings)
    with _about("SENDGRID_API_KEY, MAILWRIGHT_SENDGRID_URL"):
        return SendGridSettings(settings.sendgrid_api_key.get_secret_value(), without_purpose(settings.sendgrid_url))


def mailgun_settings(settings: Settings) -> "MailgunSettings":
    from mailwright.providers.mailgun import MailgunSettings  # noqa: PLC0415 - see above

    if settings.mailgun_api_key is None:
        raise _needed("MAILGUN_API_KEY", "mailgun", settings)
    if settings.mailgun_domain is None:
        raise _needed("MAILGUN_DOMAIN", "mailgun", settings)
    with _about("MAILGUN_API_KEY, MAILGUN_DOMAIN, MAILWRIGHT_MAILGUN_URL"):
        return MailgunSettings(
            settings.mailgun_api_key.get_secret_value(), settings.mailgun_domain, without_purpose(settings.mailgun_url)
        )


def resend_settings(settings: Settings) -> "ResendSettings":
    from mailwright.providers.resend import ResendSettings  # noqa: PLC0415 - see above

    if settings.resend_api_key is None:
        raise _needed("RESEND_API_KEY", "resend", settings)
    with _about("RESEND_API_KEY, MAILWRIGHT_RESEND_URL"):
        return ResendSettings(settings.resend_api_key.get_secret_value(), without_purpose(settings.resend_url))


def postmark_settings(settings: Settings) -> "PostmarkSettings":
    from mailwright.providers.postmark import PostmarkSettings  # noqa: PLC0415 - see above

    if settings.postmark_server_token is None:
        raise _needed("POSTMARK_SERVER_TOKEN", "postmark", settings)
    with _about("POSTMARK_SERVER_TOKEN, POSTMARK_MESSAGE_STREAM, MAILWRIGHT_POSTMARK_URL"):
        return PostmarkSettings(
            settings.postmark_server_token.get_secret_value(),
            settings.postmark_message_stream,
            without_purpose(settings.postmark_url),
        )


def brevo_settings(settings: Settings) -> SmtpSettings:
    return _smtp("brevo", "BREVO_SMTP_URL", settings.brevo_smtp_url, settings)


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


SETTINGS_BY_PROVIDER: Mapping[str, Callable[[Settings], object]] = {
    "smtp": smtp_settings,
    "ses": ses_settings,
    "sendgrid": sendgrid_settings,
    "smtpbz": smtpbz_settings,
    "mailgun": mailgun_settings,
    "resend": resend_settings,
    "postmark": postmark_settings,
    "brevo": brevo_settings,
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
    wanted = f"MAILWRIGHT_PROVIDER is {provider}" if settings.route is None else f"MAILWRIGHT_ROUTE has {provider}"
    if name.endswith("SMTP_URL"):
        example = "smtp://mail.example.com:587"
        problem = lazy_gettext("is required when {wanted}, for example {example}", wanted=wanted, example=example)
    else:
        problem = lazy_gettext("is required when {wanted}", wanted=wanted)
    return ConfigurationInvalid(setting_problem(name, problem))


@contextmanager
def _about(names: str) -> Iterator[None]:
    """Prefix configuration errors with the names of the settings."""
    try:
        yield
    except ConfigurationInvalid as error:
        raise error.of(names) from error
