"""What the command line asks of the stand-ins, they do."""

import asyncio
import re
from unittest.mock import patch

import orjson
import pytest

from mailwright.domain.bounce import BounceKind
from mailwright.domain.report import Verdict
from mailwright.domain.results import ResultKind
from mailwright.domain.states import EventType
from mailwright.events.sendgrid import read
from tests.standins import sendgrid, smtp, sns
from tests.standins.__main__ import main
from tests.standins.asked import Asked, misbehave
from tests.standins.http import Answer, HttpStandIn, Request
from tests.standins.ses import SEND, SesStandIn
from tests.unit.providers.sendgrid_builders import a_mail as a_sendgrid_mail
from tests.unit.providers.sendgrid_builders import sendgrid_to
from tests.unit.providers.ses_builders import a_mail, ses_to
from tests.unit.providers.smtp_builders import a_mail as an_smtp_mail
from tests.unit.providers.smtp_builders import smtp_to


class Inlet(HttpStandIn):
    """Takes whatever is posted."""

    def usual(self, request: Request) -> Answer:
        return Answer(200, b"taken")


async def test_a_stand_in_fails_as_often_as_it_is_asked_to() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        misbehave(stand_in, Asked(fail=429, times=2), SEND)
        kinds = [(await ses.send(a_mail())).kind for _ in range(3)]
    assert kinds == [ResultKind.RETRYABLE, ResultKind.RETRYABLE, ResultKind.SENT]


async def test_sendgrid_tells_of_each_mail_that_it_took_once() -> None:
    async with sendgrid.SendGridStandIn() as server, sendgrid_to(server) as provider, Inlet() as inlet:
        await provider.send(a_sendgrid_mail())
        told = await sendgrid._tell(server, 0, f"{inlet.url}/sendgrid-events")
        assert await sendgrid._tell(server, told, f"{inlet.url}/sendgrid-events") == 1
        [request] = inlet.requests
    assert sendgrid.SIGNATURE in request.headers
    assert [event["event"] for event in orjson.loads(request.body)] == ["processed", "delivered"]


async def test_a_bounce_comes_back_from_sendgrid_where_one_is_asked_for() -> None:
    async with sendgrid.SendGridStandIn() as server, sendgrid_to(server) as provider, Inlet() as inlet:
        await provider.send(a_sendgrid_mail())
        await sendgrid._tell(server, 0, f"{inlet.url}/sendgrid-events", "bounce")
        [request] = inlet.requests
    [_, bounce] = read(request.body, 1_800_000_000_000).reports
    assert (bounce.type, bounce.verdict) == (EventType.BOUNCED, Verdict.HARD_BOUNCE)


async def test_an_smtp_server_knows_no_reader_as_often_as_it_is_asked_to(capsys: pytest.CaptureFixture[str]) -> None:
    serving = asyncio.create_task(smtp.serve("127.0.0.1", 0, Asked(fail=550, times=1)))
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


async def test_sns_tells_of_the_mail_that_it_is_asked_to_tell_of(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    async with Inlet() as inlet:
        asked = Asked(outbox_id="an-id", email="ada@example.com", type="bounce")
        await sns.serve(inlet.host, inlet.port, asked)
        [request] = inlet.requests
    event = orjson.loads(orjson.loads(request.body)["Message"])
    assert (event["eventType"], event["mail"]["tags"]) == ("Bounce", {"mailwright-message": ["an-id"]})
    assert event["bounce"]["bouncedRecipients"][0]["emailAddress"] == "ada@example.com"


def test_the_flags_arrive() -> None:
    heard: list[tuple[str, int, Asked]] = []

    async def serve(host: str, port: int, asked: Asked) -> None:
        heard.append((host, port, asked))

    with patch.object(sendgrid, "serve", serve):
        main(["sendgrid", "--fail", "503", "--times", "3", "--events-to", "http://a.example"])
    assert heard == [("127.0.0.1", 0, Asked(fail=503, times=3, events_to="http://a.example"))]
