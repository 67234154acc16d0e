"""SPF, DKIM and DMARC records of sender domains: what they must say, and which published ones are right."""

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr

from mailwright.app.dns_lookup import DnsUnavailable
from mailwright.app.sender_domain_records import check_records
from mailwright.app.spf import find_spf_problem, spf_advice
from mailwright.domain.dns_records import DnsRecord, RecordPurpose
from mailwright.ops.settings import Settings

DOMAIN = "acme.example"
OUTLOOK, GOOGLE = "include:spf.protection.outlook.com", "include:_spf.google.com"
# The SPF records of others.
ZONE = {
    "spf.protection.outlook.com": ["v=spf1 ip4:40.92.0.0/15 -all"],
    "_spf.google.com": ["v=spf1 include:_netblocks.google.com ~all"],
    "_netblocks.google.com": ["v=spf1 ip4:35.190.247.0/24 ~all"],
    "own.acme.example": [f"v=spf1 {OUTLOOK} -all"],
    "loop.example": ["v=spf1 include:loop.example -all"],
}


def settings_for(provider: str, host: str | None = None, **values: Any) -> Settings:
    url = {} if host is None else {"smtp_url": SecretStr(f"smtp://user:pass@{host}:587")}
    return Settings.model_construct(provider=provider, **url, **values)


async def state_of(record: DnsRecord, texts: list[str], **more: list[str]) -> tuple[str, str]:
    async def look_up(name: str, kind: str) -> list[str]:
        if name == "silent.example":
            raise DnsUnavailable("DNS did not answer")
        if name == record.name:
            return texts if kind == "TXT" else more.get(kind, [])
        return {"TXT": ZONE.get(name, []), "A": ["192.0.2.7"] if name == "mail.acme.example" else []}.get(kind, [])

    [result] = await check_records([record], look_up)
    return result.state.value, result.detail


@pytest.mark.parametrize(
    ("provider", "host", "value"),
    [
        ("smtp", "smtp.office365.com", f"v=spf1 {OUTLOOK} ~all"),
        ("smtp", "smtp.gmail.com", f"v=spf1 {GOOGLE} ~all"),
        ("smtp", "smtp-relay.gmail.com", f"v=spf1 {GOOGLE} ~all"),
        ("smtp", "Out.Acme.example", "v=spf1 a:out.acme.example ~all"),
        ("smtp", "192.0.2.7", "v=spf1 ip4:192.0.2.7 ~all"),
    ],
)
def test_spf_record_allows_the_servers_of_the_relay(provider: str, host: str, value: str) -> None:
    advice = spf_advice([settings_for(provider, host)], DOMAIN)
    assert (advice.value, advice.hint, advice.note) == (value, "", "")


@pytest.mark.parametrize(
    ("provider", "host", "service"),
    [
        ("ses", None, "Amazon SES"),
        ("sendgrid", None, "SendGrid"),
        ("mailgun", None, "Mailgun"),
        ("postmark", None, "Postmark"),
        ("resend", None, "Resend"),
        ("sparkpost", None, "SparkPost"),
        ("brevo", None, "Brevo"),
        ("smtp", "email-smtp.eu-west-1.amazonaws.com", "Amazon SES"),
        ("smtp", "smtp.postmarkapp.com", "Postmark"),
        ("smtp", "smtp.sparkpostmail.com", "SparkPost"),
    ],
)
def test_services_with_own_return_path_need_no_spf(provider: str, host: str | None, service: str) -> None:
    advice = spf_advice([settings_for(provider, host, mailgun_domain="mg.acme.example")], DOMAIN)
    assert (advice.is_needed, service in advice.note) == (False, True)


@pytest.mark.parametrize(
    ("host", "value"),
    [("mx1.protection.outlook.com", f"v=spf1 {OUTLOOK} ~all"), ("aspmx.l.google.com", "")],
)
def test_spf_allows_this_machine_if_it_delivers_directly(host: str, value: str) -> None:
    advice = spf_advice([settings_for("smtp", host)], DOMAIN)
    assert (advice.value, "public address of this machine" in advice.hint) == (value, True)


def test_spf_of_several_providers_is_one_record() -> None:
    used = [settings_for("smtp", "smtp.gmail.com"), settings_for("smtpbz"), settings_for("ses")]
    advice = spf_advice([*used, settings_for("mailgun", mailgun_domain=DOMAIN)], DOMAIN)
    assert advice.value == f"v=spf1 {GOOGLE} include:mailgun.org ~all"
    assert "smtp.bz" in advice.hint
    for local in (settings_for("mailbox"), settings_for("smtp", "127.0.0.1")):
        assert ("YOUR" in spf_advice([local], DOMAIN).hint, spf_advice([local], DOMAIN).value) == (False, "")


@pytest.mark.parametrize(
    ("wanted", "published", "state", "sentence"),
    [
        (OUTLOOK, f"v=spf1 mx {OUTLOOK} -all", "ok", "allows the provider"),
        (OUTLOOK, f"V=SPF1  +{OUTLOOK.upper()}  ~ALL", "ok", "allows the provider"),
        (OUTLOOK, "v=spf1 include:own.acme.example -all", "ok", "allows the provider"),
        (OUTLOOK, "v=spf1 redirect=own.acme.example", "ok", "allows the provider"),
        (OUTLOOK, "v=spf1 -all", "wrong", f"lacks {OUTLOOK}: v=spf1 -all"),
        (OUTLOOK, f"v=spf1 -all {OUTLOOK}", "wrong", "lacks"),
        (OUTLOOK, f"v=spf1 ~{OUTLOOK} -all", "wrong", "lacks"),
        (OUTLOOK, f"v=spf1 {OUTLOOK} +all", "wrong", "everyone may send"),
        (OUTLOOK, "v=spf1 include:YOUR-PROVIDER ~all", "wrong", "placeholder"),
        (OUTLOOK, f"v=spf1 {OUTLOOK} include:nothing.example -all", "wrong", "has no valid SPF record"),
        (OUTLOOK, f"v=spf1 {OUTLOOK} ip4:300.1.1.1 -all", "wrong", "invalid part"),
        (OUTLOOK, f"v=spf1 {OUTLOOK} {'a ' * 9}-all", "ok", "allows"),
        (OUTLOOK, f"v=spf1 {OUTLOOK} {'a ' * 10}-all", "wrong", "more than 10 DNS lookups"),
        (OUTLOOK, "v=spf1 include:loop.example -all", "wrong", "more than 10 DNS lookups"),
        (OUTLOOK, "v=spf1 include:silent.example -all", "unknown", "silent.example cannot be read"),
        ("a:mail.acme.example", "v=spf1 ip4:192.0.2.0/24 -all", "ok", "allows"),
        ("a:mail.acme.example", "v=spf1 mx -all", "ok", "allows"),
        ("a:mail.acme.example", "v=spf1 a:other.example -all", "wrong", "lacks a:mail.acme.example"),
    ],
)
async def test_published_spf_record_is_read_as_receivers_do(
    wanted: str, published: str, state: str, sentence: str
) -> None:
    record = DnsRecord(RecordPurpose.SPF, "TXT", DOMAIN, f"v=spf1 {wanted} ~all")
    found, detail = await state_of(record, [published, "other=1"], MX=["5 mail.acme.example"])
    assert (found, sentence in detail) == (state, True), detail


async def test_slow_includes_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.app.spf.WALK_SECONDS", 0.0)

    async def never(name: str, kind: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(DnsUnavailable, match="could not be followed"):
        await find_spf_problem(DOMAIN, f"v=spf1 {OUTLOOK} ~all", ["v=spf1 include:slow.example -all"], never)


@pytest.mark.parametrize(
    ("published", "state"),
    [("v=spf1 ip4:192.0.2.1 -all", "unknown"), ("v=spf1 -all", "wrong"), ("v=spf1 include:YOUR-X -all", "wrong")],
)
async def test_unknown_servers_are_never_confirmed(published: str, state: str) -> None:
    record = DnsRecord(RecordPurpose.SPF, "TXT", DOMAIN, "", hint="Ask.")
    assert (await state_of(record, [published]))[0] == state
    replies = DnsRecord(RecordPurpose.REPLIES, "MX", DOMAIN, "", hint="Ask.")
    assert (await state_of(replies, [], MX=["10 your-mail-server"]))[0] == "wrong"


@pytest.mark.parametrize(
    ("published", "state", "sentence"),
    [
        (["v=DKIM1; k=ed25519; p=AAAA"], "ok", "publishes the key."),
        (["k = ed25519 ;p=AA AA;"], "ok", "publishes the key."),
        (["v=DKIM1; k=ed25519; h=sha1:sha256; s=email; t=s; p=AAAA"], "ok", "publishes the key."),
        (["v=DKIM1; k=ed25519; t=y; p=AAAA"], "ok", "Remove t=y"),
        (["v=DKIM1; p=AAAA"], "wrong", "says k=rsa"),
        (["v=DKIM1; k=ed25519; h=sha1; p=AAAA"], "wrong", "SHA-256"),
        (["v=DKIM1; k=ed25519; s=tlsrpt; p=AAAA"], "wrong", "not for email"),
        (["v=DKIM1; k=ed25519; p="], "wrong", "revokes"),
        (["v=DKIM1; k=ed25519"], "wrong", "has no key"),
        (["v=DKIM1; k=ed25519; p=BBBB"], "wrong", "another key: v=DKIM1"),
        (["v=DKIM1; k=ed25519; p=AAAA; p=BBBB"], "wrong", "twice"),
        (["v=DKIM2; k=ed25519; p=AAAA"], "wrong", "must begin with v=DKIM1"),
        (["k=ed25519; v=DKIM1; p=AAAA"], "wrong", "must begin with v=DKIM1"),
        (["v=DKIM1; k=ed25519; p=AAAA", "v=DKIM1; p=BBBB"], "wrong", "2 TXT records"),
        ([], "missing", "does not exist"),
    ],
)
async def test_published_dkim_record_must_verify_signatures(published: list[str], state: str, sentence: str) -> None:
    record = DnsRecord(RecordPurpose.DKIM, "TXT", f"s._domainkey.{DOMAIN}", "v=DKIM1; k=ed25519; p=AAAA")
    found, detail = await state_of(record, published)
    assert (found, sentence in detail) == (state, True), detail


@pytest.mark.parametrize(
    ("published", "state", "sentence"),
    [
        (["v=DMARC1; p=reject; rua=mailto:a@acme.example"], "ok", "p=reject"),
        (["v=DMARC1;p=none;rua=mailto:a@acme.example"], "ok", "change p=none to p=quarantine"),
        (["v=DMARC1; p=none"], "ok", "Add rua="),
        (["v=DMARC1"], "wrong", "no policy"),
        (["v=DMARC1; p=bogus"], "wrong", "p=bogus"),
        (["v=DMARC1; p=none; sp=all"], "wrong", "sp=all"),
        (["v=DMARC12; p=none"], "wrong", "does not begin with"),
        (["p=none; v=DMARC1"], "wrong", "does not begin with"),
        (["v=DMARC1; p=none", "v=DMARC1; p=reject"], "wrong", "2 DMARC records"),
        (["some other text"], "missing", "no DMARC record"),
        ([], "missing", "no DMARC record"),
    ],
)
async def test_published_dmarc_record_must_be_valid(published: list[str], state: str, sentence: str) -> None:
    record = DnsRecord(RecordPurpose.DMARC, "TXT", f"_dmarc.{DOMAIN}", "v=DMARC1; p=none")
    found, detail = await state_of(record, published)
    assert (found, sentence in detail) == (state, True), detail
