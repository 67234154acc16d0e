"""Command-line options of the stand-ins."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import asyncpg
import orjson
import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from mailwright.domain.bounce import BounceKind
from mailwright.domain.report import ContactVerdict
from mailwright.domain.results import ResultKind
from mailwright.domain.states import EventType
from mailwright.providers.sendgrid.events import parse_events
from tests.standins import sendgrid, smtp, sns
from tests.standins import ses as ses_stand_in
from tests.standins.__main__ import main
from tests.standins.http import Answer, HttpStandIn, Request
from tests.standins.options import StandInOptions, misbehave
from tests.standins.ses import SesStandIn
from tests.unit.providers.sendgrid_builders import a_mail as a_sendgrid_mail
from tests.unit.providers.sendgrid_builders import sendgrid_to
from tests.unit.providers.ses_builders import a_mail, ses_to
from tests.unit.providers.smtp_builders import a_mail as an_smtp_mail
from tests.unit.providers.smtp_builders import smtp_to

CHECKOUT = Path(__file__).resolve().parents[3]


class Inlet(HttpStandIn):
    """Accept any POST."""

    def usual(self, request: Request) -> Answer:
        return Answer(200, b"taken")


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (503, ResultKind.RETRYABLE, "SES_SERVICE_UNAVAILABLE"),
        (429, ResultKind.RETRYABLE, "SES_MAX_SEND_RATE_EXCEEDED"),
        (403, ResultKind.FAILED, "SES_ACCESS_DENIED"),
        (504, ResultKind.IN_DOUBT, "SES_NO_ANSWER"),
    ],
)
async def test_ses_stand_in_fails_as_scripted(status: int, kind: ResultKind, code: str) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        misbehave(stand_in, StandInOptions(fail=status, times=2), ses_stand_in.SEND, ses_stand_in.refused)
        results = [await ses.send(a_mail()) for _ in range(3)]
    assert [(result.kind, result.code) for result in results] == [(kind, code)] * 2 + [(ResultKind.SENT, None)]


async def test_sendgrid_stand_in_fails_as_scripted() -> None:
    async with sendgrid.SendGridStandIn() as server, sendgrid_to(server) as provider:
        misbehave(server, StandInOptions(fail=503, times=1), sendgrid.SEND, sendgrid.refused)
        results = [await provider.send(a_sendgrid_mail()) for _ in range(2)]
    assert [(result.kind, result.code, result.message) for result in results] == [
        (ResultKind.RETRYABLE, "SENDGRID_SERVICE_UNAVAILABLE", "service unavailable"),
        (ResultKind.SENT, None, None),
    ]


async def test_sendgrid_stand_in_reports_each_message_once() -> None:
    async with sendgrid.SendGridStandIn() as server, sendgrid_to(server) as provider, Inlet() as inlet:
        await provider.send(a_sendgrid_mail())
        told = await sendgrid.post_events(server, 0, f"{inlet.url}/sendgrid-events")
        assert await sendgrid.post_events(server, told, f"{inlet.url}/sendgrid-events") == 1
        [request] = inlet.requests
    assert sendgrid.SIGNATURE in request.headers
    assert [event["event"] for event in orjson.loads(request.body)] == ["processed", "delivered"]


async def test_sendgrid_stand_in_bounces_on_request() -> None:
    async with sendgrid.SendGridStandIn() as server, sendgrid_to(server) as provider, Inlet() as inlet:
        await provider.send(a_sendgrid_mail())
        await sendgrid.post_events(server, 0, f"{inlet.url}/sendgrid-events", "bounce")
        [request] = inlet.requests
    [_, bounce] = parse_events(request.body, 1_800_000_000_000).reports
    assert (bounce.type, bounce.verdict) == (EventType.BOUNCED, ContactVerdict.HARD_BOUNCE)


async def test_smtp_stand_in_rejects_recipients_as_scripted(capsys: pytest.CaptureFixture[str]) -> None:
    serving = asyncio.create_task(smtp.serve("127.0.0.1", 0, StandInOptions(fail=550, times=1)))
    said = ""
    while (found := re.search(r"MAILWRIGHT_SMTP_URL='(\S+)'", said)) is None and not serving.done():
        await asyncio.sleep(0)
        said += capsys.readouterr().out
    assert found is not None
    async with smtp_to(found[1]) as provider:
        results = [await provider.send(an_smtp_mail()) for _ in range(2)]
    assert [(result.kind, result.bounce) for result in results] == [
        (ResultKind.FAILED, BounceKind.HARD),
        (ResultKind.SENT, None),
    ]
    serving.cancel()


async def test_sns_stand_in_reports_the_requested_message(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    async with Inlet() as inlet:
        asked = StandInOptions(outbox_id="an-id", email="ada@example.com", type="bounce")
        await sns.serve(inlet.host, inlet.port, asked)
        [request] = inlet.requests
    event = orjson.loads(orjson.loads(request.body)["Message"])
    assert (event["eventType"], event["mail"]["tags"]) == ("Bounce", {"mailwright-message": ["an-id"]})
    assert event["bounce"]["bouncedRecipients"][0]["emailAddress"] == "ada@example.com"


@pytest.mark.parametrize(("name", "ending"), [("postgresql", signal.SIGINT), ("valkey", signal.SIGTERM)])
def test_stand_in_processes_print_settings_and_end_with_parent(name: str, ending: signal.Signals) -> None:
    # A separate process group that receives Ctrl-C as from a terminal.
    command = [sys.executable, "-m", "tests.standins", name]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, process_group=0) as running:
        assert running.stdout is not None
        running.stdout.readline()
        _, _, address = running.stdout.readline().strip().partition("=")
        place = address.strip("'")
        server = asyncio.run(identity_of(place))
        assert server is not None
        os.killpg(running.pid, ending)
        assert running.wait(60) == 0
    # Another program may use the same port by now.
    assert asyncio.run(identity_of(place)) != server


async def identity_of(address: str) -> str | None:
    """Return what distinguishes the server from a later one at the same address, or None if there is none."""
    try:
        if address.startswith("redis://"):
            async with Redis.from_url(address) as valkey:
                return str((await valkey.info("server"))["run_id"])
        connection = await asyncpg.connect(address)
        started_at = await connection.fetchval("SELECT pg_postmaster_start_time()")
        await connection.close()
        return str(started_at)
    except (OSError, RedisError):
        return None


def test_flags_are_passed_on() -> None:
    heard: list[tuple[str, int, StandInOptions]] = []

    async def serve(host: str, port: int, asked: StandInOptions) -> None:
        heard.append((host, port, asked))

    with patch.object(sendgrid, "serve", serve):
        main(["sendgrid", "--fail", "503", "--times", "3", "--events-to", "http://a.example"])
    assert heard == [("127.0.0.1", 0, StandInOptions(fail=503, times=3, events_to="http://a.example"))]
