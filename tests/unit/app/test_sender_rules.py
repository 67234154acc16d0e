"""The rules of the large mailbox providers, with a fake resolver."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mailwright.app.destinations import destination_of
from mailwright.app.dns_lookup import DnsUnavailable
from mailwright.app.sender_rules import rules_of
from mailwright.domain.message import Source
from mailwright.domain.sending_readiness import Destination
from mailwright.ops.settings import Settings, load
from mailwright.providers.sendgrid.provider import read_settings as sendgrid_settings
from mailwright.providers.ses.provider import read_settings as ses_settings
from mailwright.sources.sender_rules import RouteRules, SenderRules

GOOD = {"example.org": ["v=spf1 mx -all"], "_dmarc.example.org": ["v=DMARC1; p=none"]}
MANY = 1_001


def settings(tmp_path: Path, **changes: Any) -> Settings:
    given = {
        "database_url": f"sqlite:///{tmp_path / 'x.db'}",
        "sender": "Shop <shop@example.org>",
        "provider": "sendgrid",
        "sendgrid_api_key": SecretStr("key"),
        "base_url": "https://mail.example.org",
        "postal_address": "1 Example Street",
    }
    return load(**{**given, **changes})


async def unmet(found: Settings, records: dict[str, list[str]] | None, *, recipients: int = MANY, **more: Any) -> str:
    async def look_up(name: str, _kind: str) -> list[str]:
        if records is None:
            raise DnsUnavailable
        return records.get(name, [])

    async def find_route(_tenant_id: int, _source: Source) -> RouteRules:
        return rules_of(found, look_up=look_up)

    rules = SenderRules(found.sender_rules_limit, find_route, found.postal_address)
    given = {"has_postal_address": bool(rules.postal_address), **more}
    return " ".join(await rules.unmet(1, Source.CAMPAIGN, recipients, **given) or ())


@pytest.mark.promise("sender-rules")
async def test_many_recipients_need_every_rule(tmp_path: Path) -> None:
    assert await unmet(settings(tmp_path), GOOD) == ""
    relay = {"provider": "smtp", "smtp_url": SecretStr("smtp://relay.example.org:587")}
    bare = settings(tmp_path, base_url="http://localhost:8000", postal_address=None, **relay)
    missing = await unmet(bare, {})
    for rule in ("SPF", "DMARC", "One-click unsubscribe", "postal address"):
        assert rule in missing
    assert await unmet(bare, {}, recipients=1_000) == ""
    assert await unmet(settings(tmp_path, sender_rules_limit=5_000), {}, recipients=5_000) == ""


async def test_unknown_dns_counts_as_unmet(tmp_path: Path) -> None:
    assert "DNS does not respond" in await unmet(settings(tmp_path), None)


async def test_smtp_server_needs_own_signature_and_providers_sign(tmp_path: Path) -> None:
    smtp = settings(tmp_path, provider="smtp", smtp_url=SecretStr("smtp://relay.example.org:587"))
    assert "DKIM: messages are not signed" in await unmet(smtp, GOOD)


async def test_own_sender_of_a_campaign_is_checked(tmp_path: Path) -> None:
    assert "other.example.net" in await unmet(settings(tmp_path), GOOD, sender="News <news@other.example.net>")


@pytest.mark.promise("sender-rules")
async def test_rules_apply_to_a_relay_on_this_machine(tmp_path: Path) -> None:
    for url in "smtp://127.0.0.1:2525", "smtp://localhost", "smtp://[::1]:25?tls=none":
        relay = settings(tmp_path, provider="smtp", smtp_url=SecretStr(url))
        assert destination_of(relay) is Destination.RECIPIENTS
        assert "DKIM: messages are not signed" in await unmet(relay, GOOD)
    local_api = settings(tmp_path, sendgrid_url="http://localhost:9000")
    assert "DNS does not respond" in await unmet(local_api, None)


async def test_rules_do_not_apply_where_nothing_is_delivered(tmp_path: Path) -> None:
    test_relay = SecretStr("smtp://mailpit.example.org:1025?purpose=test&tls=none")
    exempt = (
        settings(tmp_path, provider="mailbox"),
        settings(tmp_path, provider="smtp", smtp_url=SecretStr("smtp://127.0.0.1:2525"), dry_run=True),
        settings(tmp_path, provider="smtp", smtp_url=test_relay),
        settings(tmp_path, provider="smtpbz", smtpbz_api_key=SecretStr("key"), smtp_url=test_relay),
        settings(tmp_path, sendgrid_url="http://localhost:9000?purpose=test"),
        settings(tmp_path, provider="ses", aws_region="eu-west-1", ses_url="http://localhost:9000/?purpose=test"),
    )
    for found in exempt:
        assert destination_of(found).reaches_nobody
        assert await unmet(found, None) == ""
    both = settings(tmp_path, route="smtp,sendgrid", smtp_url=test_relay)
    assert destination_of(both) is Destination.RECIPIENTS


def test_purpose_is_not_part_of_requests(tmp_path: Path) -> None:
    marked = "http://localhost:9000?purpose=test"
    assert sendgrid_settings(settings(tmp_path, sendgrid_url=marked)).url == "http://localhost:9000"
    ses = settings(tmp_path, provider="ses", aws_region="eu-west-1", ses_url=marked)
    assert ses_settings(ses).url == "http://localhost:9000"
