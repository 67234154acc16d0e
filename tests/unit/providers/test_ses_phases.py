"""Interrupted SES requests: retried if not sent, in doubt if perhaps sent, never sent twice."""

import asyncio
import logging

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.aws import AwsKeys
from tests.ports import free_port
from tests.standins.http import GARBAGE, Step
from tests.standins.ses import ACCESS_KEY, SECRET_KEY, SesStandIn
from tests.unit.providers.ses_builders import CONTENT, a_mail, keys_found, ses_to

LARGE = CONTENT + b"x" * (18 * 1024 * 1024)  # More than the socket buffers hold.


async def test_refused_connection_is_retried() -> None:
    port = free_port()
    async with ses_to(f"http://127.0.0.1:{port}") as ses:
        result = await ses.send(a_mail())
    assert (result.kind, result.code, result.category) == (
        ResultKind.RETRYABLE,
        "NETWORK_ERROR",
        ErrorCategory.TRANSIENT,
    )
    assert result.blames_provider


@pytest.mark.parametrize("step", [Step.HEAD, Step.BODY])
async def test_interruption_in_the_message_is_retried(step: Step) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.cut(step, nth=1)
        result = await ses.send(a_mail(content=LARGE))
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "NETWORK_ERROR")
        assert not stand_in.messages
        assert len(stand_in.begun) == 1


@pytest.mark.parametrize("step", [Step.ANSWER, Step.MIDDLE])
async def test_interruption_after_the_message_is_in_doubt(step: Step) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.cut(step, nth=1)
        result = await ses.send(a_mail())
        assert (result.kind, result.code, result.blames_provider) == (ResultKind.IN_DOUBT, "SES_NO_ANSWER", True)
        assert len(stand_in.requests) == 1
        assert (await ses.send(a_mail())).kind is ResultKind.SENT


async def test_garbled_response_is_in_doubt() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.answer(GARBAGE, nth=1)
        assert (await ses.send(a_mail())).kind is ResultKind.IN_DOUBT
        assert len(stand_in.requests) == 1


async def test_interruption_after_the_response_changes_nothing() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.cut(Step.ANSWERED)
        first = await ses.send(a_mail())
        await asyncio.sleep(0.01)  # The close must reach this socket.
        second = await ses.send(a_mail())
        assert [first.kind, second.kind] == [ResultKind.SENT] * 2
        assert len(stand_in.messages) == 2


async def test_silence_after_the_message_is_in_doubt() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in, timeout_seconds=0.1) as ses:
        stand_in.hold(Step.ANSWER)
        result = await ses.send(a_mail())
        assert (result.kind, result.code, result.category) == (
            ResultKind.IN_DOUBT,
            "SES_NO_ANSWER",
            ErrorCategory.TIMEOUT,
        )
        assert len(stand_in.requests) == 1


async def test_server_that_stops_reading_causes_a_retry() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in, timeout_seconds=0.5) as ses:
        hold = stand_in.hold(Step.HEAD)
        result = await ses.send(a_mail(content=LARGE))
        assert (result.kind, result.code, result.category) == (
            ResultKind.RETRYABLE,
            "SES_TIMEOUT",
            ErrorCategory.TIMEOUT,
        )
        hold.release()
        while stand_in.open_connections:
            await asyncio.sleep(0)
        assert not stand_in.requests


async def test_late_response_belongs_to_its_message() -> None:
    """A slow server gets one request: a repeated one would send the message again."""
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        hold = stand_in.hold(Step.ANSWER)
        sending = asyncio.ensure_future(ses.send(a_mail()))
        await hold.reached.wait()
        hold.release()
        assert (await sending).kind is ResultKind.SENT
        assert len(stand_in.requests) == 1


async def test_concurrent_messages_get_their_own_responses() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        readers = [f"reader-{number}@example.org" for number in range(300)]
        results = await asyncio.gather(*(ses.send(a_mail(reader)) for reader in readers))
        told = {result.provider_message_id: reader for result, reader in zip(results, readers, strict=True)}
        assert told == {message.message_id: message.recipients[0] for message in stand_in.messages}
        assert len(told) == 300
        assert not stand_in.violations


async def test_bad_message_does_not_delay_others() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        hold = stand_in.hold(Step.ANSWER, nth=1)
        slow = asyncio.ensure_future(ses.send(a_mail()))
        await hold.reached.wait()
        stand_in.cut(Step.ANSWER, nth=1)
        assert (await ses.send(a_mail())).kind is ResultKind.IN_DOUBT
        assert (await ses.send(a_mail())).kind is ResultKind.SENT
        hold.release()
        await slow


# The lease.


async def test_nothing_is_sent_after_the_lease_ends() -> None:
    clock = ManualClock()
    async with SesStandIn(clock=clock) as stand_in, ses_to(stand_in, clock=clock) as ses:
        result = await ses.send(a_mail(send_before=clock.now()))
        assert (result.kind, result.code, result.category) == (
            ResultKind.RETRYABLE,
            "LOCK_EXPIRED",
            ErrorCategory.TRANSIENT,
        )
        assert not result.blames_provider
        assert not stand_in.begun
        assert (await ses.send(a_mail(send_before=clock.now() + 1))).kind is ResultKind.SENT


async def test_lease_that_ends_during_credential_lookup_prevents_the_send() -> None:
    clock = ManualClock()

    def slow() -> AwsKeys:
        clock.advance(2)
        return AwsKeys(ACCESS_KEY, SECRET_KEY)

    async with SesStandIn(clock=clock) as stand_in, ses_to(stand_in, clock=clock, keys=lambda: slow) as ses:
        result = await ses.send(a_mail(send_before=clock.now() + 1))
        assert result.code == "LOCK_EXPIRED"
        assert not stand_in.begun


async def test_lease_that_ends_during_the_request_changes_nothing() -> None:
    clock = ManualClock()
    async with SesStandIn(clock=clock) as stand_in, ses_to(stand_in, clock=clock) as ses:
        stand_in.call(Step.ANSWER, lambda: clock.advance(2))
        assert (await ses.send(a_mail(send_before=clock.now() + 1))).kind is ResultKind.SENT


# Secrets.


async def test_logs_and_results_contain_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found = keys_found("wr0ng-secret", "t0ken-of-a-role")
    async with SesStandIn(token="t0ken-of-a-role") as stand_in, ses_to(stand_in, keys=found) as ses:
        result = await ses.send(a_mail())
        probe = await ses.check()
        stand_in.cut(Step.ANSWER)
        cut = await ses.send(a_mail())
    assert result.code == "SES_ACCESS_DENIED"
    told = f"{result!r} {probe!r} {cut!r} {found()()!r} {caplog.text}"
    for secret in ("wr0ng-secret", "t0ken-of-a-role", "reader@", "news@", "Hello"):
        assert secret not in told
