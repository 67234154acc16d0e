"""The dedupe key of a message reaches every provider that has tags, in a form that the provider allows."""

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest

from mailwright.providers.dedupe_tag import dedupe_tag
from mailwright.providers.ses.request import build_body
from tests.standins.sendgrid import SendGridStandIn
from tests.standins.sparkpost import SparkPostStandIn
from tests.standins.vendors import MailgunStandIn, PostmarkStandIn, ResendStandIn, VendorStandIn
from tests.unit.providers.sendgrid_builders import a_mail, sendgrid_to
from tests.unit.providers.test_vendor_apis import a_provider

PLAIN = "9f2c-2026.open@NB"
FREE = "92026|NB|10001 → Open"
LONG = "x" * 200


def ses_tags(dedupe_key: str | None) -> dict[str, str]:
    body = orjson.loads(build_body(replace(a_mail(), dedupe_key=dedupe_key), None))
    return {tag["Name"]: tag["Value"] for tag in body["EmailTags"]}


async def vendor_request(stand_in: type[VendorStandIn], dedupe_key: str) -> dict[str, Any]:
    async with stand_in() as server, a_provider(server) as provider:
        await provider.send(replace(a_mail(), dedupe_key=dedupe_key))
        assert not server.violations
        [taken] = server.messages
        return dict(taken)


def test_ses_gets_the_key_as_a_tag() -> None:
    assert ses_tags(PLAIN)["dedupe_key"] == PLAIN
    assert re.fullmatch(r"sha256-[0-9a-f]{64}", ses_tags(FREE)["dedupe_key"])
    assert ses_tags(FREE) == ses_tags(FREE)
    assert "dedupe_key" not in ses_tags(None)


async def test_sendgrid_gets_the_key_as_a_custom_argument() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        await sendgrid.send(replace(a_mail(), dedupe_key=FREE))
        [taken] = server.messages
    assert taken["personalizations"][0]["custom_args"]["dedupe_key"] == FREE


@pytest.mark.parametrize("key", [PLAIN, FREE, LONG])
async def test_other_vendors_get_the_key(key: str) -> None:
    mailgun = await vendor_request(MailgunStandIn, key)
    assert mailgun["v:dedupe_key"] == [key]
    postmark = await vendor_request(PostmarkStandIn, key)
    assert postmark["Metadata"]["dedupe_key"] == dedupe_tag(key, re.compile(".{1,80}"))
    resend = await vendor_request(ResendStandIn, key)
    [tag] = [each["value"] for each in resend["tags"] if each["name"] == "dedupe_key"]
    assert tag == dedupe_tag(key, re.compile("[A-Za-z0-9_-]{1,256}"))
    sparkpost = await vendor_request(SparkPostStandIn, key)
    assert sparkpost["metadata"]["dedupe_key"] == dedupe_tag(key, re.compile("[ -~]{1,200}"))
