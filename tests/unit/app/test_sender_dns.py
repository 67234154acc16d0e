"""SPF, DKIM and DMARC checks with a fake resolver."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr

from mailwright.app.dns_lookup import DnsUnavailable
from mailwright.app.sender_dns import check_sender
from mailwright.cli.check import print_findings
from mailwright.content.dkim_key import DkimKey
from mailwright.domain.findings import Finding, TxtRecord, Verdict
from mailwright.ops.settings import Settings
from tests.standins.dns import a_dns_server

GOOD = {"example.org": ["v=spf1 mx -all", "other=1"], "_dmarc.example.org": ["v=DMARC1; p=reject"]}


async def findings(records: dict[str, list[str]] | None, **settings: object) -> list[Finding]:
    async def look_up(name: str, _kind: str) -> list[str]:
        if records is None:
            raise DnsUnavailable
        return records.get(name, [])

    made = Settings.model_construct(**{"sender": "Shop <shop@example.org>", **settings})
    return [finding async for finding in check_sender(made, look_up)]


async def test_configured_dns_servers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.app.dns_lookup.DNS_SECONDS", 60.0)
    relay = {"provider": "smtp", "smtp_url": SecretStr("smtp://relay.example.org:587")}
    async with a_dns_server() as dns:
        dns.zone = {("TXT", "example.org"): ["v=spf1 ip4:192.0.2.1 -all"], ("A", "relay.example.org"): ["192.0.2.1"]}
        made = Settings.model_construct(**{"sender": "shop@example.org", "dns_servers": (dns.address,), **relay})
        found = {finding.name: finding.verdict async for finding in check_sender(made)}
    assert (found["spf"], found["dmarc"]) == (Verdict.OK, Verdict.PROBLEM)
    assert {"example.org", "relay.example.org", "_dmarc.example.org"} <= set(dns.asked)


async def verdicts(records: dict[str, list[str]] | None, **settings: object) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in await findings(records, **settings)}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "dkim.pem").write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))
    return tmp_path / "dkim.pem"


async def test_valid_records_pass_and_signing_is_recommended() -> None:
    assert await verdicts(GOOD) == {"spf": Verdict.OK, "dkim": Verdict.WARNING, "dmarc": Verdict.OK}


async def test_missing_and_duplicate_records_are_problems() -> None:
    assert set((await verdicts({})).values()) == {Verdict.PROBLEM, Verdict.WARNING}
    doubled = {**GOOD, "example.org": ["v=spf1 mx -all", "v=spf1 a -all"]}
    assert (await verdicts(doubled))["spf"] is Verdict.PROBLEM


async def test_advice_repeats_the_spf_record_to_publish() -> None:
    relay = {"provider": "smtp", "smtp_url": SecretStr("smtp://user:pass@smtp.office365.com:587")}
    [spf] = [each for each in await findings({}, **relay) if each.name == "spf"]
    assert spf.publish is not None
    assert spf.publish.value in (spf.advice or "")


async def test_spf_is_checked_for_the_bounce_domain() -> None:
    bounces = {**GOOD, "bounce.example.net": ["v=spf1 mx -all"], "example.org": []}
    assert (await verdicts(bounces, bounce_address="b@bounce.example.net"))["spf"] is Verdict.OK


async def test_published_key_must_match_the_signing_key(key_file: Path) -> None:
    signing = {"dkim_key_file": key_file, "dkim_selector": "mail"}
    published = DkimKey.load(key_file.read_text(), "example.org", "mail").record()
    name = "mail._domainkey.example.org"
    assert (await verdicts({**GOOD, name: [published]}, **signing))["dkim"] is Verdict.OK
    assert (await verdicts({**GOOD, name: ["v=DKIM1; k=ed25519; p=AAAA"]}, **signing))["dkim"] is Verdict.PROBLEM
    assert (await verdicts(GOOD, **signing))["dkim"] is Verdict.PROBLEM


async def test_record_to_publish_is_a_field_and_one_line(key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {each.name: each for each in await findings(GOOD, dkim_key_file=key_file, dkim_selector="mail")}
    value = DkimKey.load(key_file.read_text(), "example.org", "mail").record()
    assert found["dkim"].publish == TxtRecord("mail._domainkey.example.org", value)
    assert found["dmarc"].publish is None
    long = TxtRecord("mail._domainkey.example.org", "v=DKIM1; k=rsa; p=" + "A" * 400)
    print_findings([replace(found["dkim"], publish=long)])
    table, _, below = capsys.readouterr().out.partition("Publish these DNS records:\n")
    assert "AAA" not in table
    assert below == f'{long.name} TXT "{long.value}"\n'


async def test_result_is_unknown_without_a_network() -> None:
    assert set((await verdicts(None)).values()) == {Verdict.WARNING}
    [local] = await findings(None, sender="mailwright@mailwright.localhost")
    assert (local.name, local.verdict) == ("sender", Verdict.WARNING)
    assert "SPF, DKIM and DMARC are not checked" in local.summary
