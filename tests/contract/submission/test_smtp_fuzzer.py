"""Any bytes get correct replies from the SMTP server, and the outbox has exactly what it confirmed."""

from collections.abc import AsyncIterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock
from mailwright.sources.api.raw import MAX_RECIPIENTS
from mailwright.storage.database import Database
from tests.api import an_engine
from tests.faults.smtp_fuzz import Fuzzed, a_script
from tests.submission import EMAIL, Submission, a_dialogue, a_submission, count_contents

pytestmark = pytest.mark.promise("smtp-durable")


@pytest.fixture
async def fuzzed(database: Database, clock: ManualClock) -> AsyncIterator[Fuzzed]:
    async with a_submission(an_engine(database, clock)) as submission:
        yield Fuzzed(submission)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), pieces=st.sampled_from([1, 1, 5, 100]))
async def test_any_script_gets_correct_replies(fuzzed: Fuzzed, random: Random, pieces: int) -> None:
    await fuzzed.check(a_script(random, fuzzed.submission.key), pieces=pieces)
    assert fuzzed.problems == []
    assert "evil@example.com" not in await fuzzed.submission.stored()


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), part=st.floats(0, 1))
async def test_clients_that_vanish_leave_a_working_server(fuzzed: Fuzzed, random: Random, part: float) -> None:
    script = a_script(random, fuzzed.submission.key)
    await fuzzed.drop(script[: int(len(script) * part)])
    assert fuzzed.problems == []


async def test_ten_thousand_recipients_get_ten_thousand_replies(fuzzed: Fuzzed) -> None:
    async with a_dialogue(fuzzed.submission) as client:
        await client.say("MAIL FROM:<shop@example.com>")
        client.writer.write(b"".join(b"RCPT TO:<r%d@example.com>\r\n" % number for number in range(10_000)))
        replies = [(await client.reply())[:3] for _ in range(10_000)]
        assert replies == ["250"] * MAX_RECIPIENTS + ["452"] * (10_000 - MAX_RECIPIENTS)
        assert (await client.say("DATA"))[0].startswith("354")
        assert (await client.ask(EMAIL + b".\r\n")).count("Accepted") == MAX_RECIPIENTS
    assert len(await fuzzed.submission.stored()) == MAX_RECIPIENTS


@pytest.mark.parametrize("as_chunk", [False, True])
async def test_fifty_megabytes_are_refused_and_the_next_email_is_not(fuzzed: Fuzzed, as_chunk: bool) -> None:
    submission: Submission = fuzzed.submission
    content = EMAIL + (b"x" * 998 + b"\r\n") * 50_000
    async with a_dialogue(submission) as client:
        await client.say("MAIL FROM:<shop@example.com>", "RCPT TO:<ada@example.com>")
        if as_chunk:
            client.writer.write(b"BDAT %d LAST\r\n" % len(content))
        else:
            assert (await client.say("DATA"))[0].startswith("354")
        client.writer.write(content)
        assert (await client.ask(b"" if as_chunk else b".\r\n")).startswith("552 5.3.4")
        assert await submission.stored() == []
        assert await count_contents(submission.engine.database) == 0
    await fuzzed.works()
