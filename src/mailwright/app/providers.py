"""Build the providers named in the settings and join them in one route."""

from typing import TYPE_CHECKING

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.providers.circuit_breaker import CircuitBreaker
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route, RouteMember, providers_of

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient


def make_route(settings: Settings, clock: Clock, own_name: str | None = None) -> Route:
    """Build the route. `own_name` is the name of a provider that is configured for some tenants only."""
    weights = providers_of(settings)
    http = _http(settings) if any(_needs_http(_find_kind(name), settings) for name in weights) else None
    members = [
        RouteMember(make_provider(name, settings, clock, http), CircuitBreaker(clock), weight, own_name)
        for name, weight in weights.items()
    ]
    return Route(members, clock, shared=http)


def reports_events(name: str, settings: Settings) -> bool:
    """Return whether this provider is set up to report events."""
    return name in KINDS and KINDS[name].reports_events(settings)


def make_provider(name: str, settings: Settings, clock: Clock, http: "HttpClient | None" = None) -> Provider:
    kind = _find_kind(name)
    if http is None and _needs_http(kind, settings):
        http = _http(settings)
    provider: Provider = kind.load_provider().make_provider(
        settings, clock, http, reports_events=kind.reports_events(settings)
    )
    return provider


def verify_providers(settings: Settings) -> None:
    """Raise one error with every missing setting of every provider."""
    problems: list[str] = []
    for name in providers_of(settings):
        try:
            _find_kind(name).load_provider().read_settings(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(*problems)


def _find_kind(name: str) -> ProviderKind:
    if name not in KINDS:
        raise ConfigurationInvalid(
            setting_problem("MAILWRIGHT_PROVIDER", lazy_gettext("unknown provider {name}", name=repr(name)))
        )
    return KINDS[name]


def _needs_http(kind: ProviderKind, settings: Settings) -> bool:
    """Return whether the provider needs an HTTP client. An SMTP server needs one for OAuth."""
    has_oauth = settings.oauth_token_url is not None or settings.oauth_service_account is not None
    return kind.needs_http or (has_oauth and kind.smtp_server is not None and kind.smtp_server.has_oauth)


def _http(settings: Settings) -> "HttpClient":
    from mailwright.providers.http import HttpClient  # noqa: PLC0415 - takes 0.1 s, so imported on use

    return HttpClient(connections=settings.concurrency)
