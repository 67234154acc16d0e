"""The route: one or more providers, each with its own circuit breaker. Only one provider may get a message in doubt."""

import zlib
from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.results import ErrorCategory, SendResult
from mailwright.ops.provider_kinds import KIND_PROBLEMS, KINDS
from mailwright.ops.settings import Settings
from mailwright.providers.circuit_breaker import LONGEST, CircuitBreaker, CircuitState
from mailwright.providers.learned_rate import LearnedRate
from mailwright.providers.protocol import Provider

# While one message probes a provider, other messages are deferred by this much.
PROBE_PAUSE: Instant = SECOND


@dataclass(frozen=True, slots=True)
class RouteMember:
    provider: Provider
    breaker: CircuitBreaker
    weight: int | None = None  # None if the members are tried in order.
    own_name: str | None = None  # The name of a provider that is configured for some tenants only.

    @property
    def name(self) -> str:
        return self.own_name or self.provider.name

    def is_free(self, probing: Container[str | None]) -> bool:
        """Return whether this provider can take the next message. During a probe it gets only one message."""
        match self.breaker.state:
            case CircuitState.CLOSED:
                return True
            case CircuitState.PROBING:
                return self.name not in probing
            case CircuitState.OPEN:
                return False

    def wait(self, now: Instant) -> Deferral:
        return self.breaker.deferral() or Deferral(now + PROBE_PAUSE, DeferReason.PROVIDER_UNAVAILABLE)


class Closable(Protocol):
    """A resource that the members share, for example the HTTP client. The route closes it."""

    async def close(self) -> None: ...


class Route:
    """Chooses a provider: the first available one or, with weights, each available one for its share of messages."""

    def __init__(self, members: Sequence[RouteMember], clock: Clock, shared: Closable | None = None) -> None:
        self.members = tuple(members)
        self._clock = clock
        self._shared = shared
        self._by_name = {member.name: member for member in members}
        self._learned = {member.name: LearnedRate(clock) for member in members}

    @classmethod
    def of(cls, provider: Provider, clock: Clock) -> "Route":
        return cls([RouteMember(provider, CircuitBreaker(clock))], clock)

    def choose(self, claimed: Claimed, probing: Container[str | None]) -> RouteMember | Deferral:
        """Choose the provider of a message, or defer it. `probing` lists the providers with a probe in flight."""
        if claimed.only_provider is not None:
            return self._only(claimed.only_provider, probing)
        if len(self.members) == 1 and self.members[0].is_free(probing):
            return self.members[0]
        free = [member for member in self.members if member.is_free(probing)]
        if len(free) > 1 and claimed.failed_provider is not None:
            free = [member for member in free if member.name != claimed.failed_provider]
        if not free:
            now = self._clock.now()
            return min((member.wait(now) for member in self.members), key=lambda deferral: deferral.until)
        return free[0] if len(free) == 1 or free[0].weight is None else _by_weight(claimed.outbox_id, free)

    def deferral(self) -> Deferral | None:
        """Return the deferral until the first provider is available; None if one is available now."""
        deferrals = [member.breaker.deferral() for member in self.members]
        found = [deferral for deferral in deferrals if deferral is not None]
        return min(found, key=lambda deferral: deferral.until) if len(found) == len(self.members) else None

    @property
    def is_probing(self) -> bool:
        """Whether all available providers are being probed, so that only one message at a time may be sent."""
        states = {member.breaker.state for member in self.members}
        return CircuitState.CLOSED not in states and CircuitState.PROBING in states

    def record(
        self,
        result: SendResult,
        *,
        is_repeated: bool = False,
        attempted_at: Instant = 0,
        failed_before: str | None = None,
    ) -> None:
        self._learned[result.provider].record(result, attempted_at)
        # Only throttling depends on it.
        is_paced = result.category is ErrorCategory.QUOTA and self.is_paced(result.provider, attempted_at)
        breaker = self._by_name[result.provider].breaker
        breaker.record(result, is_repeated=is_repeated, is_paced=is_paced, failed_before=failed_before)

    def learned_rate(self, provider: str) -> float | None:
        """Return the messages per second that the provider accepts; None if it does not throttle."""
        return self._learned[provider].per_second

    def paced_provider(self) -> str | None:
        """Return the provider whose learned rate limits all messages; None if another provider can send them."""
        closed = [member.name for member in self.members if member.breaker.state is CircuitState.CLOSED]
        return closed[0] if len(closed) == 1 and self.learned_rate(closed[0]) is not None else None

    def is_paced(self, provider: str, attempted_at: Instant) -> bool:
        """Return whether a learned rate already handles throttling, so that the provider need not be paused."""
        return self._learned[provider].applied_to(attempted_at) and self.paced_provider() == provider

    def deferred_until(self, claimed: Claimed, provider: str) -> Instant:
        """Return when a message is due again after a failure that this provider caused."""
        if claimed.only_provider is None and self._has_other_available(provider):
            return self._clock.now()
        return self._by_name[provider].breaker.deferred_until()

    def probe_at(self, provider: str) -> Instant | None:
        """Return when the provider is probed next; None if its circuit breaker is not open."""
        deferral = self._by_name[provider].breaker.deferral()
        return None if deferral is None else deferral.until

    def fails_over(self, claimed: Claimed, provider: str) -> bool:
        """Return whether another provider may send a message that this one could not send.

        This is allowed once per message, because no attempt is counted and a message that every provider rejects would
        otherwise alternate between them forever.
        """
        return claimed.only_provider is None and claimed.failed_provider is None and self._has_other_available(provider)

    def reports_events(self, provider: str) -> bool:
        return self._by_name[provider].provider.reports_events

    async def close(self, grace: Instant = 0) -> None:
        for member in self.members:
            await member.provider.close(grace)
        if self._shared is not None:
            await self._shared.close()

    def _only(self, name: str, probing: Container[str | None]) -> RouteMember | Deferral:
        member = self._by_name.get(name)
        if member is None:
            return Deferral(self._clock.now() + LONGEST, DeferReason.PROVIDER_MISSING)
        return member if member.is_free(probing) else member.wait(self._clock.now())

    def _has_other_available(self, provider: str) -> bool:
        return any(member.breaker.state is CircuitState.CLOSED for member in self.members if member.name != provider)


def _by_weight(outbox_id: str, members: Sequence[RouteMember]) -> RouteMember:
    """Choose by weight. A message always gets the same member while the available members stay the same."""
    point = zlib.crc32(outbox_id.encode()) % sum(member.weight or 1 for member in members)
    for member in members:
        point -= member.weight or 1
        if point < 0:
            return member
    raise AssertionError("the point must lie within the sum of the weights")


def providers_of(settings: Settings) -> Mapping[str, int | None]:
    """Return the configured providers with their weights."""
    if settings.route is None:
        return {settings.provider: None}
    return parse_route(settings.route, (*KINDS, *KIND_PROBLEMS))


def parse_route(text: str, known: Sequence[str]) -> dict[str, int | None]:
    """Parse `ses, smtp` (in this order) or `ses=3, smtp=1` (by weight); report all problems together."""
    found: dict[str, int | None] = {}
    problems: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        name, equals, weight = (piece.strip() for piece in part.partition("="))
        if name not in known:
            problems.append(f"{part!r} does not begin with one of {', '.join(known)}")
        elif name in found:
            problems.append(f"{name!r} is listed twice")
        elif equals and not (weight.isascii() and weight.isdigit() and int(weight) > 0):
            problems.append(f"{part!r} needs a weight that is a whole number, at least 1")
        found[name] = int(weight) if weight.isascii() and weight.isdigit() else None
    if not problems and len({weight is None for weight in found.values()}) > 1:
        problems.append("give a weight to every provider (ses=3, smtp=1) or to none")
    if problems:
        raise ConfigurationInvalid(*(f"MAILWRIGHT_ROUTE: {problem}" for problem in problems))
    return found
