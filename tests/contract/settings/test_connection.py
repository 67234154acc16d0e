"""The connection test of providers against real local servers: it never raises, and its time is bounded."""

import asyncio
import time
from pathlib import Path

import pytest

from mailwright.app.provider_test import advice_for, check_providers
from mailwright.domain.clock import SystemClock
from mailwright.ops.settings import load
from mailwright.providers.protocol import ProviderCheck
from tests.standins.smtp_sink import SinkTls, SmtpSink


async def tried(url: str, seconds: float = 20.0) -> ProviderCheck:
    settings = load(database_url="sqlite:///unused.db", provider="smtp", smtp_url=url)
    [found] = await check_providers(settings, SystemClock(), seconds)
    return found


async def test_right_password_connects_without_sending() -> None:
    async with SmtpSink(users={"ada": "secret"}) as sink:
        found = await tried(f"smtp://ada:secret@127.0.0.1:{sink.port}?tls=none")
        assert (found.is_ok, sink.messages) == (True, [])
        assert "secret" not in found.summary


async def test_wrong_password_is_named() -> None:
    async with SmtpSink(users={"ada": "secret"}) as sink:
        found = await tried(f"smtp://ada:wrong@127.0.0.1:{sink.port}?tls=none")
    assert (found.is_ok, found.code) == (False, "SMTP_AUTH_FAILED")
    assert advice_for(found) == "Check the user name and the password."
    assert "wrong@" not in found.summary


async def test_untrusted_certificate_fails() -> None:
    async with SmtpSink(tls=SinkTls.STARTTLS) as sink:
        found = await tried(f"smtp://127.0.0.1:{sink.port}?tls=starttls")
    assert (found.is_ok, found.code) == (False, "SMTP_TLS_FAILED")


async def test_refused_connection_fails_with_advice() -> None:
    async with SmtpSink() as sink:
        port = sink.port
    found = await tried(f"smtp://127.0.0.1:{port}?tls=none")
    assert not found.is_ok
    assert "firewall" in advice_for(found)


async def test_silent_server_costs_bounded_time() -> None:
    async with SmtpSink() as sink:
        sink.hang()
        begun = time.monotonic()
        async with asyncio.timeout(20):
            found = await tried(f"smtp://127.0.0.1:{sink.port}?tls=none", seconds=0.2)
    assert (found.is_ok, found.code) == (False, "SMTP_TIMEOUT")
    assert time.monotonic() - begun >= 0.2


async def test_missing_settings_are_reported_as_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    [found] = await check_providers(load(provider="sendgrid"), SystemClock())
    assert (found.is_ok, found.summary.partition(":")[0]) == (False, "SENDGRID_API_KEY")
