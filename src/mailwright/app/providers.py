"""Build the providers named in the settings and join them in one route."""

from dataclasses import replace
from typing import TYPE_CHECKING

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.providers.circuit_breaker import CircuitBreaker
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route, RouteMember, providers_of
from mailwright.providers.unusable import unusable_member

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient


def make_route(settings: Settings, clock: Clock, own_name: str | None = None) -> Route:
    """Build the route. `own_name` is the name of a provider that is configured for some tenants only."""
    weights = providers_of(settings)
    http = _http(settings) if any(_needs_http(KINDS[name], settings) for name in weights) else None
    members = [
        replace(_make_member(name, settings, clock, http), weight=weight, own_name=own_name)
        for name, weight in weights.items()
    ]
    return Route(members, clock, shared=http)


def _make_member(name: str, settings: Settings, clock: Clock, http: "HttpClient | None") -> RouteMember:
    """Make the member of a route. Messages wait for a plugin that cannot be used; the other members still send."""
    kind = KINDS[name]
    problem = kind.problem
    try:
        if problem is None:
            return RouteMember(make_provider(name, settings, clock, http), CircuitBreaker(clock))
    except Exception as error:
        if kind.plugin_api is None or isinstance(error, ConfigurationInvalid):
            raise
        problem = plugin_failure(kind, error)
    return unusable_member(name, problem, clock)


def plugin_failure(kind: ProviderKind, error: Exception) -> str:
    """Return the sentence about an unexpected error in a plugin's own code."""
    return f"the plugin {kind.name} failed ({type(error).__name__}: {' '.join(str(error).split())[:200]})"


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
        kind = KINDS[name]
        if kind.problem is not None:  # `check` shows it. Messages wait, and everything else works.
            continue
        try:
            kind.load_provider().read_settings(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
        except Exception:
            if kind.plugin_api is None:
                raise
    if problems:
        raise ConfigurationInvalid(*problems)


def _find_kind(name: str) -> ProviderKind:
    kind = KINDS[name]
    if kind.problem is not None:
        raise ConfigurationInvalid(setting_problem("MAILWRIGHT_PROVIDER", kind.problem))
    return kind


def _needs_http(kind: ProviderKind, settings: Settings) -> bool:
    """Return whether the provider needs an HTTP client. An SMTP server needs one for OAuth."""
    has_oauth = settings.oauth_token_url is not None or settings.oauth_service_account is not None
    return kind.needs_http or (has_oauth and kind.smtp_server is not None and kind.smtp_server.has_oauth)


def _http(settings: Settings) -> "HttpClient":
    from mailwright.providers.http import HttpClient  # noqa: PLC0415 - takes 0.1 s, so imported on use

    return HttpClient(connections=settings.concurrency)
