"""Health knows the certificates that visitors of the public addresses get, from real TLS servers, on both engines."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mailwright.app.https_certificates import CHECK_AGAIN, CHECK_EVERY, check_certificates, list_https_hosts
from mailwright.checks.health import check_health
from mailwright.checks.health_watch import HealthWatch
from mailwright.domain.clock import DAY
from mailwright.domain.findings import Finding, Verdict
from mailwright.ops.metrics import REGISTRY
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.recorded_facts import load_certificates
from tests.builders import Bench
from tests.standins.smtp_sink import Certificate, a_certificate

pytestmark = pytest.mark.promise("health-true")

HOST = "localhost"


@pytest.fixture
def loopback_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.app.https_certificates.is_private_host", lambda host: False)


@asynccontextmanager
async def serving(certificate: Certificate | None) -> AsyncIterator[str]:
    """Serve at the host with a certificate, or without TLS, and yield the public URL."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if certificate is None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    tls = None if certificate is None else certificate.server_context()
    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"https://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def at(bench: Bench, url: str) -> Settings:
    return bench.engine.settings.model_copy(update={"base_url": url})


async def found_at(bench: Bench, url: str) -> list[Finding]:
    return [each for each in await check_health(at(bench, url), bench.database, bench.clock) if each.name == "https"]


async def verdicts(bench: Bench, url: str) -> list[Verdict]:
    return [each.verdict for each in await found_at(bench, url)]


@pytest.mark.usefixtures("loopback_is_public")
async def test_expiry_of_a_trusted_certificate_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = a_certificate(HOST, days=3650)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    async with serving(certificate) as url:
        assert not await found_at(bench, url)  # It is not known before the first check.
        await check_certificates(at(bench, url), bench.database, bench.clock)
        assert await verdicts(bench, url) == [Verdict.OK]
        [(host, recorded)] = (await load_certificates(bench.database)).items()
        assert recorded.ends is not None
        await HealthWatch(at(bench, url), bench.database, bench.clock).findings()
        metric = "mailwright_https_certificate_expiry_timestamp_seconds"
        assert REGISTRY.get_sample_value(metric, {"host": host}) == recorded.ends / 1000
        bench.clock.advance(recorded.ends - 13 * DAY - bench.clock.now())
        [soon] = await found_at(bench, url)
        assert (soon.verdict, "renewed" in str(soon.advice)) == (Verdict.WARNING, True)
        bench.clock.advance(13 * DAY)
        assert await verdicts(bench, url) == [Verdict.PROBLEM]
    assert not await found_at(bench, "https://other.example.com")


@pytest.mark.usefixtures("loopback_is_public")
@pytest.mark.parametrize(
    ("certificate", "is_trusted", "says"),
    [
        (a_certificate(HOST, days=-1), True, "has expired"),
        (a_certificate("other.example.com"), True, "is for another name"),
        (a_certificate(HOST), False, "self-signed certificate"),
        (None, False, "does not speak HTTPS"),
    ],
)
async def test_certificate_that_browsers_refuse_is_a_problem(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, certificate: Certificate | None, is_trusted: bool, says: str
) -> None:
    if certificate is not None and is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    async with serving(certificate) as url:
        await check_certificates(at(bench, url), bench.database, bench.clock)
        await HealthWatch(at(bench, url), bench.database, bench.clock).findings()
    [finding] = await found_at(bench, url)
    assert finding.verdict is Verdict.PROBLEM
    assert says in finding.summary
    assert finding.advice
    labels = {"host": url.removeprefix("https://")}
    assert REGISTRY.get_sample_value("mailwright_https_certificate_expiry_timestamp_seconds", labels) == 0


@pytest.mark.usefixtures("loopback_is_public")
async def test_unreachable_host_is_a_warning_and_checked_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = a_certificate(HOST, days=3650)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    async with serving(certificate) as url:
        pass
    await check_certificates(at(bench, url), bench.database, bench.clock)
    [finding] = await found_at(bench, url)
    assert (finding.verdict, "not reachable from this machine" in finding.summary) == (Verdict.WARNING, True)
    watch = HealthWatch(at(bench, url), bench.database, bench.clock)
    await watch.findings()
    labels = {"host": url.removeprefix("https://")}
    value = REGISTRY.get_sample_value("mailwright_https_certificate_expiry_timestamp_seconds", labels)
    assert value is not None
    assert math.isnan(value)
    [first] = (await load_certificates(bench.database)).values()
    await check_certificates(at(bench, url), bench.database, bench.clock)
    bench.clock.advance(CHECK_AGAIN)
    await check_certificates(at(bench, url), bench.database, bench.clock)
    [again] = (await load_certificates(bench.database)).values()
    assert again.at == first.at + CHECK_AGAIN


@pytest.mark.usefixtures("loopback_is_public")
async def test_known_certificate_is_checked_once_an_hour(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = a_certificate(HOST, days=3650)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    async with serving(certificate) as url:
        await check_certificates(at(bench, url), bench.database, bench.clock)
    bench.clock.advance(CHECK_EVERY - 1)
    await check_certificates(at(bench, url), bench.database, bench.clock)  # The server has stopped since.
    assert await verdicts(bench, url) == [Verdict.OK]
    await check_certificates(at(bench, url), bench.database, bench.clock, is_forced=True)
    assert await verdicts(bench, url) == [Verdict.WARNING]


async def test_only_public_https_addresses_are_checked(bench: Bench) -> None:
    for name, host in (("a", "https://Click.example.com:443"), ("b", "http://plain.example.com")):
        await tenants.create(bench.database, bench.clock, name, tracking_host=host)
    await tenants.create(bench.database, bench.clock, "c", tracking_host="https://10.0.0.5:8443")
    settings = at(bench, "https://localhost:8443").model_copy(
        update={"unsubscribe_base_url": "https://leave.example.com/bye"}
    )
    assert await list_https_hosts(settings, bench.database) == ["click.example.com", "leave.example.com"]
