"""A provider that cannot be used, because its settings cannot be read or are incomplete. Its messages wait."""

from typing import Final

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.providers.circuit_breaker import LONGEST, CircuitBreaker, CircuitState
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.route import RouteMember

UNUSABLE: Final = "PROVIDER_UNUSABLE"


def unusable_member(name: str, problem: str, clock: Clock) -> RouteMember:
    return RouteMember(_UnusableProvider(name, problem), _AlwaysOpen(clock, problem))


class _UnusableProvider:
    reports_events = False
    capacity = bulk_capacity = 0

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    async def send(self, message: OutgoingMessage) -> SendResult:
        category = ErrorCategory.CONFIGURATION
        return SendResult(ResultKind.RETRYABLE, self.name, code=UNUSABLE, category=category, message=self._problem)

    async def check(self) -> ProviderCheck:
        return ProviderCheck(False, self._problem, UNUSABLE)

    async def close(self, grace: Instant = 0) -> None:
        """Do nothing, because nothing is open."""


class _AlwaysOpen(CircuitBreaker):
    """Blocks all messages. Only changed settings, which start a new worker, end this."""

    def __init__(self, clock: Clock, problem: str) -> None:
        super().__init__(clock)
        self.explanation = f"{UNUSABLE}: {problem}"

    @property
    def state(self) -> CircuitState:
        return CircuitState.OPEN

    def deferral(self) -> Deferral:
        return self.outage()

    def outage(self) -> Deferral:
        # A round time, so that it is not reported again in every round of maintenance.
        until = (self._clock.now() // LONGEST + 1) * LONGEST
        return Deferral(until, DeferReason.PROVIDER_UNAVAILABLE)
