"""Findings about the certificates that visitors of the public addresses get."""

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from mailwright.domain.clock import DAY, Instant, utc_day_text, utc_text
from mailwright.domain.findings import Finding, ok, problem, warning
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.recorded_facts import HttpsProblem, RecordedCertificate

NAME: Final = "https"
# Certificates are renewed weeks before they expire. With less time left, the renewal does not work.
_EXPIRES_SOON: Final = 14 * DAY


def find_https_problems(certificates: Mapping[str, RecordedCertificate], now: Instant) -> Iterator[Finding]:
    for host, found in certificates.items():
        if found.problem is not None:
            yield _problem(host, found.problem, found)
        elif found.ends is not None:
            yield _expiry(host, found.ends, now)


def _expiry(host: str, ends: Instant, now: Instant) -> Finding:
    day = utc_day_text(ends)
    if ends <= now:
        return _expired(host, lazy_gettext("the certificate of {host} expired on {day}", host=host, day=day))
    summary = lazy_gettext("the certificate of {host} expires on {day}", host=host, day=day)
    if ends - now >= _EXPIRES_SOON:
        return ok(NAME, summary)
    advice = lazy_gettext("look in the logs of the proxy or of certbot why it was not renewed")
    return warning(NAME, summary, advice)


def _expired(host: str, summary: str) -> Finding:
    advice = lazy_gettext(
        "renew it and reload the proxy; until then, browsers refuse the links in emails to {host}", host=host
    )
    return problem(NAME, summary, advice)


def _problem(host: str, kind: HttpsProblem, found: RecordedCertificate) -> Finding:
    at = utc_text(found.at)
    match kind:
        case HttpsProblem.EXPIRED:
            return _expired(
                host, lazy_gettext("the certificate of {host} has expired (checked at {at})", host=host, at=at)
            )
        case HttpsProblem.WRONG_NAME:
            summary = lazy_gettext("the certificate at {host} is for another name (checked at {at})", host=host, at=at)
            advice = lazy_gettext(
                "get a certificate for {host}, or correct MAILWRIGHT_BASE_URL, UNSUBSCRIBE_BASE_URL or the tracking "
                "host",
                host=host,
            )
        case HttpsProblem.UNTRUSTED:
            summary = lazy_gettext(
                "browsers do not trust the certificate of {host}: {detail} (checked at {at})",
                host=host,
                detail=found.detail,
                at=at,
            )
            advice = lazy_gettext(
                "let the proxy send the full chain of a public authority; for an authority of your own, set "
                "SSL_CERT_FILE for Mailwright"
            )
        case HttpsProblem.NO_TLS:
            summary = lazy_gettext(
                "{host} does not speak HTTPS: {detail} (checked at {at})", host=host, detail=found.detail, at=at
            )
            advice = lazy_gettext("start the proxy with HTTPS on this port, or correct the address")
        case HttpsProblem.UNREACHABLE:
            summary = lazy_gettext(
                "{host} is not reachable from this machine, so its certificate is unknown: {detail} (checked at {at})",
                host=host,
                detail=found.detail,
                at=at,
            )
            advice = lazy_gettext(
                "open it in a browser; if it works there, a firewall or the DNS of this machine is the cause"
            )
            return warning(NAME, summary, advice)
        case _:
            assert_never(kind)
    return problem(NAME, summary, advice)
