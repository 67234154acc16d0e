"""The sender's domain in DNS: what receivers would find, judged without a network."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mailwright.app.findings import Verdict
from mailwright.app.sender_dns import DnsSilent, check_sender
from mailwright.content.dkim_key import DkimKey
from mailwright.ops.settings import Settings

GOOD = {"example.org": ["v=spf1 mx -all", "other=1"], "_dmarc.example.org": ["v=DMARC1; p=reject"]}


async def verdicts(records: dict[str, list[str]] | None, **settings: object) -> dict[str, Verdict]:
    async def look_up(name: str) -> list[str]:
        if records is None:
            raise DnsSilent
        return records.get(name, [])

    made = Settings.model_construct(**{"sender": "Shop <shop@example.org>", **settings})
    return {finding.name: finding.verdict async for finding in check_sender(made, look_up)}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "dkim.pem").write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))
    return tmp_path / "dkim.pem"


@pytest.mark.promise("cli-check-dns")
async def test_good_records_are_good_and_signing_is_recommended() -> None:
    assert await verdicts(GOOD) == {"spf": Verdict.OK, "dkim": Verdict.WARNING, "dmarc": Verdict.OK}


@pytest.mark.promise("cli-check-dns")
async def test_missing_and_doubled_records_are_problems() -> None:
    assert set((await verdicts({})).values()) == {Verdict.PROBLEM, Verdict.WARNING}
    doubled = {**GOOD, "example.org": ["v=spf1 mx -all", "v=spf1 a -all"]}
    assert (await verdicts(doubled))["spf"] is Verdict.PROBLEM


@pytest.mark.promise("cli-check-dns")
async def test_spf_is_looked_for_where_bounces_go() -> None:
    bounces = {**GOOD, "bounce.example.net": ["v=spf1 -all"], "example.org": []}
    assert (await verdicts(bounces, bounce_address="b@bounce.example.net"))["spf"] is Verdict.OK


@pytest.mark.promise("cli-check-dns")
async def test_the_published_key_must_be_the_one_that_we_sign_with(key_file: Path) -> None:
    signing = {"dkim_key_file": key_file, "dkim_selector": "mail"}
    published = DkimKey.load(key_file.read_text(), "example.org", "mail").record()
    name = "mail._domainkey.example.org"
    assert (await verdicts({**GOOD, name: [published]}, **signing))["dkim"] is Verdict.OK
    assert (await verdicts({**GOOD, name: ["v=DKIM1; k=ed25519; p=AAAA"]}, **signing))["dkim"] is Verdict.PROBLEM
    assert (await verdicts(GOOD, **signing))["dkim"] is Verdict.PROBLEM


@pytest.mark.promise("cli-check-dns")
async def test_without_a_network_nothing_is_claimed() -> None:
    assert set((await verdicts(None)).values()) == {Verdict.WARNING}
    assert await verdicts(None, sender="mailwright@localhost") == {"sender": Verdict.WARNING}
