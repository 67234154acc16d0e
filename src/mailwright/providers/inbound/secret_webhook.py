"""A webhook that is not signed: a shared secret authenticates each request, which has one event or a list."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pydantic import SecretStr

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import Report
from mailwright.providers.inbound.parsed_events import ParsedEvents, parse_each, read_events
from mailwright.providers.inbound.webhook_secrets import SharedSecret

EventParser = Callable[[Any, Instant], Report | str]


class SecretWebhook:
    """Verifies and parses requests with a secret. `ignored` are events that say nothing about a message."""

    def __init__(self, secret: str, clock: Clock, parse: EventParser, ignored: Collection[str]) -> None:
        self._secret = SharedSecret(secret)
        self._clock = clock
        self._parse = parse
        self._ignored = ignored

    def parse(self, headers: Mapping[str, str], body: bytes) -> ParsedEvents:
        """Verify and parse a request. Raise `EventRejected` if it is not authentic."""
        self._secret.check(headers)
        now = self._clock.now()
        return parse_each(read_events(body), lambda event: self._parse(event, now), self._ignored)


def secret_webhook(
    secret: SecretStr | None, clock: Clock, parse: EventParser, ignored: Collection[str]
) -> SecretWebhook | None:
    """Return the webhook; None if its secret is not set."""
    return None if secret is None else SecretWebhook(secret.get_secret_value(), clock, parse, ignored)
