"""`mailwright forecast` and `mailwright quota`, as text and as JSON."""

from pathlib import Path

import pytest

from mailwright.domain.campaign import INDEFINITELY, PAUSED
from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.outbox.defer import defer_lane
from tests.acceptance.commands import Commands
from tests.builders import a_bench, change_tenant
from tests.contract.campaigns.test_forecast import a_queued_campaign
from tests.standins.smtpbz import KEY, SmtpBzStandIn


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path, {"MAILWRIGHT_DATABASE_URL": f"sqlite:///{tmp_path}/mail.db"})


async def test_forecast_prints_a_timeline_and_json(commands: Commands, tmp_path: Path) -> None:
    await commands.ok("db", "upgrade")
    assert "No campaign is queued." in (await commands.ok("forecast")).out
    async with a_bench(f"sqlite:///{tmp_path}/mail.db", ManualClock(SystemClock().now())) as bench:
        await change_tenant(bench.database, rate_per_hour=100)
        await a_queued_campaign(bench, 230)
        paused = await a_queued_campaign(bench, 40)
        await defer_lane(bench.database, paused.lane, PAUSED, INDEFINITELY)
    drawn = (await commands.ok("forecast")).out
    for words in (
        "To 230",
        "To 40",
        "Hourly limit reached",
        "Paused",
        "sending",
        "nothing is sent before somebody resumes it",
    ):
        assert words in drawn
    told = (await commands.ok("forecast", "--json", "--days", "7", "--tenant", "default")).json
    first, second = told["campaigns"]
    assert (first["name"], first["remaining"], second["finishesAt"]) == ("To 230", 230, None)
    assert sum(segment["sending"] for segment in first["segments"]) == 230
    assert {segment["reason"] for segment in first["segments"]} == {None, "rate_per_hour"}
    assert told["isRateMeasured"] is False
    assert (await commands.run("forecast", "--tenant", "nobody")).code == 1


async def test_quota_is_shown_and_synced(commands: Commands) -> None:
    await commands.ok("db", "upgrade")
    assert "No provider reports a quota" in (await commands.ok("quota")).out
    assert (await commands.ok("quota", "--json")).json == []
    async with SmtpBzStandIn() as api:
        settings = {
            "MAILWRIGHT_PROVIDER": "smtpbz",
            "MAILWRIGHT_SMTPBZ_URL": api.base,
            "SMTPBZ_API_KEY": KEY,
            "SMTPBZ_SMTP_URL": "smtp://127.0.0.1:1",
        }
        assert "97" in (await commands.ok("quota", "--sync", **settings)).out
        [known] = (await commands.ok("quota", "--json")).json
        assert (known["provider"], known["remaining"], known["sentSince"], known["failure"]) == ("smtpbz", 97, 0, None)
        failed = await commands.run("quota", "--sync", **{**settings, "SMTPBZ_API_KEY": "wrong"})
        assert failed.code == 1
        assert "mailwright check" in failed.err
        assert "97" in failed.out  # The previous quota is kept.
        assert KEY not in failed.out + failed.err
