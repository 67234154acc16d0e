"""Interrupted SendGrid requests: retried before the last byte, in doubt after it."""

import asyncio
from collections.abc import Callable

import pytest

from mailwright.content.mime import EmailAttachment
from mailwright.domain.clock import ManualClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, ResultKind
from tests.ports import free_port
from tests.standins.http import Step
from tests.standins.sendgrid import SendGridStandIn
from tests.unit.providers.sendgrid_builders import a_mail, sendgrid_to

pytestmark = pytest.mark.promise("provider-phase")


def a_large_mail() -> OutgoingMessage:
    """Create a message larger than the socket buffers, so that a part waits until the server reads."""
    return a_mail(attachments=(EmailAttachment("large.bin", "application/octet-stream", bytes(16 * 1024 * 1024)),))


async def test_refused_connection_is_retried() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with sendgrid_to(url) as sendgrid:
        result = await sendgrid.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "NETWORK_ERROR")
        assert (result.category, result.blames_provider) == (ErrorCategory.TRANSIENT, True)


@pytest.mark.parametrize("step", [Step.HEAD, Step.BODY])
async def test_interruption_in_a_large_message_is_retried(step: Step) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.cut(step, nth=1)
        result = await sendgrid.send(a_large_mail())
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "NETWORK_ERROR")
        assert not server.requests
        assert len(server.begun) == 1
        assert (await sendgrid.send(a_large_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize("step", [Step.ANSWER, Step.MIDDLE])
async def test_interruption_after_the_last_byte_is_in_doubt(step: Step) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.cut(step, nth=1)
        result = await sendgrid.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.IN_DOUBT, "SENDGRID_NO_ANSWER")
        assert (result.category, result.blames_provider) == (ErrorCategory.TIMEOUT, True)
        assert len(server.requests) == 1
        assert (await sendgrid.send(a_mail())).kind is ResultKind.SENT


async def test_interruption_after_the_response_changes_nothing() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.cut(Step.ANSWERED)
        assert (await sendgrid.send(a_mail())).kind is ResultKind.SENT
        assert len(server.messages) == 1


@pytest.mark.parametrize(
    ("step", "message", "kind", "code"),
    [
        (Step.HEAD, a_large_mail, ResultKind.RETRYABLE, "SENDGRID_TIMEOUT"),
        (Step.ANSWER, a_mail, ResultKind.IN_DOUBT, "SENDGRID_NO_ANSWER"),
        (Step.MIDDLE, a_mail, ResultKind.IN_DOUBT, "SENDGRID_NO_ANSWER"),
    ],
)
async def test_silence_ends_with_the_timeout(
    step: Step, message: Callable[[], OutgoingMessage], kind: ResultKind, code: str
) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server, timeout_seconds=0.5) as sendgrid:
        hold = server.hold(step)
        result = await sendgrid.send(message())
        assert (result.kind, result.code, result.category) == (kind, code, ErrorCategory.TIMEOUT)
        assert hold.reached.is_set()
        assert len(server.begun) == 1


async def test_message_with_expired_lease_is_not_sent() -> None:
    clock = ManualClock()
    async with SendGridStandIn() as server, sendgrid_to(server, clock=clock) as sendgrid:
        result = await sendgrid.send(a_mail(send_before=clock.now()))
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "LOCK_EXPIRED")
        assert not result.blames_provider
        assert not server.begun
        assert (await sendgrid.send(a_mail(send_before=clock.now() + 1))).kind is ResultKind.SENT


async def test_lease_that_ends_during_the_response_changes_nothing() -> None:
    clock = ManualClock()
    async with SendGridStandIn() as server, sendgrid_to(server, clock=clock) as sendgrid:
        hold = server.hold(Step.ANSWER)
        sending = asyncio.ensure_future(sendgrid.send(a_mail(send_before=clock.now() + 1)))
        await hold.reached.wait()
        clock.advance(10)
        hold.release()
        assert (await sending).kind is ResultKind.SENT


async def test_concurrent_messages_are_one_request_each() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        results = await asyncio.gather(*[sendgrid.send(a_mail()) for _ in range(60)])
        assert {result.provider_message_id for result in results} == set(server.message_ids)
        assert len(server.requests) == len(server.message_ids) == 60
