"""Functions that the kinds of providers share to read their settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.child_process import own_share
from mailwright.ops.settings import Settings
from mailwright.providers.smtp.settings import SmtpSettings
from mailwright.providers.smtp.url import parse_smtp_url

if TYPE_CHECKING:
    from mailwright.providers.oauth import OAuthSettings


def missing_setting(name: str, provider: str, settings: Settings) -> ConfigurationInvalid:
    """Return the error about a setting that the provider needs."""
    wanted = f"MAILWRIGHT_PROVIDER is {provider}" if settings.route is None else f"MAILWRIGHT_ROUTE has {provider}"
    if name.endswith("SMTP_URL"):
        example = "smtp://mail.example.com:587"
        problem = lazy_gettext("is required when {wanted}, for example {example}", wanted=wanted, example=example)
    else:
        problem = lazy_gettext("is required when {wanted}", wanted=wanted)
    return ConfigurationInvalid(setting_problem(name, problem))


@contextmanager
def about(names: str) -> Iterator[None]:
    """Prefix configuration errors with the names of the settings."""
    try:
        yield
    except ConfigurationInvalid as error:
        raise error.of(names) from error


def read_smtp_url(provider: str, name: str, url: SecretStr | None, settings: Settings) -> SmtpSettings:
    if url is None:
        raise missing_setting(name, provider, settings)
    with about(name):
        parsed = parse_smtp_url(url.get_secret_value())
    limit = settings.smtp_connections or parsed.connections
    return replace(parsed, connections=limit and own_share(limit, "MAILWRIGHT_SMTP_CONNECTIONS"))


def oauth_settings(settings: Settings, user: str) -> "OAuthSettings | None":
    """Return where access tokens of this user of SMTP or IMAP come from; None if it is not configured."""
    if settings.oauth_service_account is not None:
        return _service_account(settings.oauth_service_account.get_secret_value(), settings, user)
    if settings.oauth_token_url is None or settings.oauth_client_id is None:
        return None
    from mailwright.providers.oauth import OAuthSettings  # noqa: PLC0415 - takes 0.1 s, so imported on use

    secret, refresh = settings.oauth_client_secret, settings.oauth_refresh_token
    with about("MAILWRIGHT_OAUTH_TOKEN_URL, MAILWRIGHT_OAUTH_CLIENT_SECRET, MAILWRIGHT_OAUTH_REFRESH_TOKEN"):
        return OAuthSettings(
            settings.oauth_token_url,
            settings.oauth_client_id,
            None if secret is None else secret.get_secret_value(),
            None if refresh is None else refresh.get_secret_value(),
            settings.oauth_scope,
        )


def _service_account(text: str, settings: Settings, user: str) -> "OAuthSettings":
    from mailwright.providers.oauth import OAuthSettings, ServiceAccount  # noqa: PLC0415 - see above

    with about("MAILWRIGHT_OAUTH_SERVICE_ACCOUNT"):
        account = ServiceAccount.parse(text, user)
        return OAuthSettings(account.token_url, account.email, scope=settings.oauth_scope, service_account=account)
