"""The postal address of an article: the installation's, or else the one in the footer of mailouts."""

from email import message_from_bytes, policy
from typing import Any

import pytest

from mailwright.domain.clock import ManualClock
from tests.articles import begin, two_recipients, write_slices
from tests.builders import a_bench
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"org_address": "1 Example Street, Columbus"}, "1 Example Street, Columbus"),
        ({"org_address": "1 Example Street", "postal_address": "2 Main Street"}, "2 Main Street"),
    ],
)
async def test_article_has_the_address_of_the_organisation(
    engine: DatabaseAddress, clock: ManualClock, given: dict[str, Any], expected: str
) -> None:
    async with a_bench(engine.url, clock, **given) as bench:
        await write_slices(bench)
        await two_recipients(bench)
        await begin(bench)
        provider = ScriptedProvider()
        await bench.drain(provider)
        for message in provider.messages:
            parsed = message_from_bytes(message.content, policy=policy.default)
            for kind in ("html", "plain"):
                body = parsed.get_body((kind,))
                assert body is not None
                assert expected in body.get_content()
        assert len(provider.messages) == 2
        assert bench.engine.postal_address == expected
