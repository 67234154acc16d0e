"""Check the certificates of the public addresses, and store the results for health checks.

A visitor whose browser warns about a certificate can neither unsubscribe nor follow a tracked link.
"""

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.network import is_private_host
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.recorded_facts import (
    HttpsProblem,
    RecordedCertificate,
    load_certificates,
    record_certificates,
)
from mailwright.outbox.tenants import list_all
from mailwright.storage.database import Database

LOOK_SECONDS: Final = 300.0
CHECK_EVERY: Final = HOUR
# A certificate with a problem is checked again if its last check is older than this, so at each look, but only by one
# process.
CHECK_AGAIN: Final = 4 * MINUTE
HANDSHAKE_SECONDS: Final = 10.0
_MAX_AT_ONCE: Final = 8
_HTTPS_PORT: Final = 443
# The error codes of OpenSSL (X509_V_ERR_…).
_PROBLEMS: Final = {10: HttpsProblem.EXPIRED, 62: HttpsProblem.WRONG_NAME, 64: HttpsProblem.WRONG_NAME}


async def run_certificate_checks(settings: Settings, database: Database, clock: Clock) -> None:
    """Check the certificates until cancelled. Any number of processes may do this."""

    async def check() -> None:
        await check_certificates(settings, database, clock)

    await run_periodically("https_certificates", check, seconds=LOOK_SECONDS)


async def check_certificates(settings: Settings, database: Database, clock: Clock, *, is_forced: bool = False) -> None:
    """Check the hosts whose last check is old, or all of them, and record the results."""
    hosts, known, now = await list_https_hosts(settings, database), await load_certificates(database), clock.now()
    due = [host for host in hosts if is_forced or _is_due(known.get(host), now)]
    if not due and hosts == list(known):
        return
    slots = asyncio.Semaphore(_MAX_AT_ONCE)
    trusted = await asyncio.to_thread(ssl.create_default_context)

    async def check(host: str) -> RecordedCertificate:
        async with slots:
            return await _check_host(host, trusted, now)

    known.update(zip(due, await asyncio.gather(*map(check, due)), strict=True))
    await record_certificates(database, {host: known[host] for host in hosts})


async def list_https_hosts(settings: Settings, database: Database) -> list[str]:
    """List the hosts of links in emails, with an unusual port. Visitors of private addresses are not known here."""
    tracking = [tenant.tracking_host for tenant in await list_all(database) if tenant.tracking_host]
    urls = [urlsplit(url) for url in (settings.public_url, settings.unsubscribe_url, *tracking)]
    return sorted(
        {
            url.netloc.rpartition("@")[2].removesuffix(f":{_HTTPS_PORT}").lower()
            for url in urls
            if url.scheme == "https" and url.hostname and not is_private_host(url.hostname)
        }
    )


def _is_due(last: RecordedCertificate | None, now: Instant) -> bool:
    # If the clock was set back, check again.
    return last is None or not 0 <= now - last.at < (CHECK_AGAIN if last.problem else CHECK_EVERY)


async def _check_host(host: str, trusted: ssl.SSLContext, now: Instant) -> RecordedCertificate:
    url = urlsplit(f"//{host}")
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            _, writer = await asyncio.open_connection(url.hostname, url.port or _HTTPS_PORT, ssl=trusted)
    except ssl.SSLCertVerificationError as error:
        problem = _PROBLEMS.get(error.verify_code, HttpsProblem.UNTRUSTED)
        return RecordedCertificate(now, problem=problem, detail=error.verify_message)
    except ssl.SSLError as error:
        return RecordedCertificate(now, problem=HttpsProblem.NO_TLS, detail=error.reason or type(error).__name__)
    except TimeoutError:
        detail = f"no response within {HANDSHAKE_SECONDS:g} s"
        return RecordedCertificate(now, problem=HttpsProblem.UNREACHABLE, detail=detail)
    except (OSError, UnicodeError) as error:  # A name that DNS cannot hold is a UnicodeError.
        detail = getattr(error, "strerror", None) or type(error).__name__
        return RecordedCertificate(now, problem=HttpsProblem.UNREACHABLE, detail=detail)
    certificate = writer.get_extra_info("peercert")
    writer.transport.abort()
    return RecordedCertificate(now, ends=ssl.cert_time_to_seconds(certificate["notAfter"]) * SECOND)
