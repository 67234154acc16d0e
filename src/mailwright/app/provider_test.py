"""Test the connection to a provider with settings that are not stored yet."""

import asyncio
from typing import Final

from mailwright.app.providers import make_route
from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.settings import Settings
from mailwright.providers.protocol import ProviderCheck

# Shorter than the timeouts of a send, because a user waits for this result.
TEST_SECONDS: Final = 15.0

# The next step by error code of a provider.
_ADVICE: Final = {
    "SMTP_AUTH_FAILED": lazy_gettext("Check the user name and the password."),
    "SMTP_TOKEN_UNAVAILABLE": lazy_gettext("Check the token URL, and that no firewall blocks the connection."),
    "SMTP_TLS_FAILED": lazy_gettext(
        "Check the encryption and the port: STARTTLS usually uses 587, TLS usually uses 465."
    ),
    "NETWORK_ERROR": lazy_gettext("Check the host and the port, and that no firewall blocks the connection."),
    "SMTP_TIMEOUT": lazy_gettext("Check the host and the port, and that no firewall blocks the connection."),
}


async def check_providers(settings: Settings, clock: Clock, seconds: float = TEST_SECONDS) -> list[ProviderCheck]:
    """Connect and sign in to each provider without sending anything. Never raises, and takes at most `seconds`."""
    try:
        route = make_route(settings, clock)
    except ConfigurationInvalid as error:
        return [ProviderCheck(False, problem, error.code) for problem in error.problems]
    try:
        async with asyncio.timeout(seconds):
            return [await member.provider.check() for member in route.members]
    except TimeoutError:
        return [
            ProviderCheck(
                False, lazy_gettext("no response within {seconds} seconds", seconds=f"{seconds:g}"), "SMTP_TIMEOUT"
            )
        ]
    finally:
        await route.close()


def advice_for(check: ProviderCheck) -> str:
    return "" if check.is_ok else _ADVICE.get(check.code or "", "")
