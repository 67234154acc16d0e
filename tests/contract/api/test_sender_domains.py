"""A tenant with sender domains sends from its verified domains only, signed with their keys."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Role
from mailwright.app.sender_domains import SenderDomainService
from mailwright.checks.health import check_health
from mailwright.content.dkim_key import new_private_key
from mailwright.domain.clock import DAY, MINUTE, SECOND, ManualClock
from mailwright.domain.dkim_rotation import KEPT_FOR, KeyState, keys_in
from mailwright.domain.dns_records import DnsState, RecordPurpose
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.message import Source
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.states import EventType, Status
from mailwright.outbox import audit_log, tenants
from mailwright.outbox.sender_domains import DomainExists, DomainTaken, SenderDomain
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.app import create_app
from tests.api import client_of
from tests.builders import Bench, a_bench, a_message_with, a_tenant, the_event
from tests.campaigns import a_definition, join
from tests.conftest import DatabaseAddress
from tests.signatures import VERIFIERS, has_verifier, is_signed, verify_with
from tests.standins.dns import DnsServer, a_dns_server
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("sender-domains")

ACTOR = "console"
ACME, OTHER = "acme.example", "other.example"
# What the owner of a domain enters if Mailwright cannot know the value.
GIVEN = {"TXT": "v=spf1 ip4:192.0.2.1 -all", "MX": "10 mx.acme.example"}
# Verifiers refuse signatures from the future, by their own clock.
NOW = 1_700_000_000_000


@dataclass
class Domains:
    """An engine with a DNS server, and two tenants."""

    bench: Bench
    dns: DnsServer
    acme: int
    other: int

    @property
    def service(self) -> SenderDomainService:
        return self.bench.engine.sender_domains

    async def publish(self, tenant: int, name: str) -> None:
        """Publish all records of a domain as they are shown, and a mail server for replies."""
        records = [each.record for each in await self.service.records(await self.service.find(tenant, name))]
        for record in records:
            self.dns.zone.pop((record.type, record.name), None)
        self.dns.publish([each if each.value else replace(each, value=GIVEN[each.type]) for each in records])

    async def verified(self, tenant: int, name: str, **options: Any) -> SenderDomain:
        await self.service.add(tenant, name, actor=ACTOR, **options)
        await self.publish(tenant, name)
        return await self.service.check(tenant, name, actor=ACTOR)

    async def check(self, tenant: int, name: str) -> SenderDomain:
        return await self.service.check(tenant, name, actor=ACTOR)

    async def send(self, tenant: int, source: Source = Source.API, **content: Any) -> tuple[str, list[OutgoingMessage]]:
        """Accept a message past the API, and return its id and what a worker hands over."""
        provider = ScriptedProvider()
        [outbox_id] = await self.bench.accept(replace(a_message_with(**content), tenant_id=tenant, source=source))
        await self.bench.drain(provider)
        return outbox_id, provider.messages

    async def sent(self, tenant: int, **content: Any) -> OutgoingMessage:
        _, [message] = await self.send(tenant, **content)
        return message

    async def refusal(self, tenant: int, source: Source = Source.API, **content: Any) -> str:
        """Return why a worker refuses the message."""
        outbox_id, messages = await self.send(tenant, source, **content)
        record = await self.bench.record(outbox_id)
        assert (record.summary.status, messages) == (Status.FAILED, [])
        failed = the_event(record, EventType.FAILED).metadata
        assert failed["errorCode"] == "SENDER_DOMAIN_NOT_VERIFIED"
        return str(failed["errorMessage"])

    def signatures(self, content: bytes) -> list[tuple[str, bool]]:
        """Return the algorithm of each signature, and whether it is valid with the published records."""
        found = content.partition(b"\r\n\r\n")[0].decode().split("DKIM-Signature: ")[1:]
        return [
            (text.split("a=")[1].split(";")[0], is_signed(content, self._record, index))
            for index, text in enumerate(found)
        ]

    def _record(self, name: str) -> str | None:
        return next(iter(self.dns.zone.get(("TXT", name), ())), None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests answers at once, but a busy machine may not."""
    monkeypatch.setattr("mailwright.app.dns_lookup.DNS_SECONDS", 60.0)
    monkeypatch.setattr("mailwright.app.sender_domain_records.CHECK_SECONDS", 90.0)


@pytest.fixture
async def domains(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Domains]:
    async with a_dns_server() as dns, a_bench(engine.url, clock, dns_servers=dns.address) as bench:
        acme, other = [await a_tenant(bench.database, name) for name in ("acme", "other")]
        yield Domains(bench, dns, acme, other)


async def test_domain_is_verified_when_its_records_are_visible(domains: Domains) -> None:
    made = await domains.service.add(domains.acme, "Acme.EXAMPLE.", actor=ACTOR)
    assert (made.domain, made.state, made.sender) == (ACME, "pending", f"shop@{ACME}")
    pending = await domains.check(domains.acme, ACME)
    states = {each.record.purpose: each.state for each in pending.results}
    assert (pending.state, states[RecordPurpose.DKIM]) == ("pending", DnsState.MISSING)
    await domains.publish(domains.acme, ACME)
    verified = await domains.check(domains.acme, ACME)
    assert (verified.state, verified.verified_at) == ("verified", NOW)
    # The test engine has no provider, so nobody knows which servers SPF must allow.
    states = {each.record.purpose: each.state for each in verified.results}
    assert states.pop(RecordPurpose.SPF) is DnsState.UNKNOWN
    assert {*states.values()} == {DnsState.OK}
    entries = await audit_log.list_entries(domains.bench.database, tenant_id=domains.acme, limit=9)
    assert [entry.action for entry in entries] == ["domain.verify", "domain.add"]


async def test_private_keys_are_encrypted_and_signatures_valid(domains: Domains) -> None:
    domain = await domains.verified(domains.acme, ACME)
    assert all((key.private_key or "").startswith("fernet:") for key in domain.keys)
    message = await domains.sent(domains.acme, **{"from": f"News <news@{ACME}>"})
    assert domains.signatures(message.content) == [("rsa-sha256", True), ("ed25519-sha256", True)]
    assert f"d={ACME};".encode() in message.content


@pytest.mark.parametrize("verifier", VERIFIERS)
async def test_other_verifiers_accept_the_signatures(domains: Domains, verifier: str) -> None:
    if not has_verifier(verifier):
        pytest.skip(f"{verifier} is not installed")
    await domains.verified(domains.acme, ACME)
    records = {name: values[0] for (kind, name), values in domains.dns.zone.items() if kind == "TXT"}
    content = {"from": f"Jürgen <news@{ACME}>", "subject": "Grüße  an alle", "html": "<p>Hello </p>\r\n\r\n \r\n"}
    message = await domains.sent(domains.acme, **content)
    found = verify_with(verifier, message.content, records)
    # A receiver that does not know Ed25519 accepts the other signature.
    assert (found["rsa-sha256"], found["ed25519-sha256"]) in (("pass", "pass"), ("pass", "invalid"))
    forged = message.content.replace(b"\r\nSubject: ", b"\r\nSubject: Not ")
    assert "pass" not in verify_with(verifier, forged, records).values()


async def test_tenants_cannot_send_as_each_other(domains: Domains) -> None:
    await domains.verified(domains.acme, ACME)
    await domains.verified(domains.other, OTHER)
    for tenant, own, foreign in ((domains.acme, ACME, OTHER), (domains.other, OTHER, ACME)):
        await domains.sent(tenant, **{"from": f"a@{own}"})
        await domains.sent(tenant, **{"from": f"a@news.{own}"})
        for name in (foreign, foreign.upper(), f"news.{foreign}"):
            assert "belongs to another tenant" in await domains.refusal(tenant, **{"from": f"a@{name}"})
        assert "nobody.example is not one of your sender domains" in await domains.refusal(
            tenant, **{"from": "a@nobody.example"}
        )
    for source in Source:
        assert "another tenant" in await domains.refusal(domains.acme, source, **{"from": f"a@{OTHER}"})
    # A tenant without a sender domain is restricted only by the domains of others.
    third = await a_tenant(domains.bench.database, "third")
    await domains.sent(third, **{"from": "a@nobody.example"})
    assert ACME in await domains.refusal(third, **{"from": f"a@{ACME}"})


@pytest.mark.both_engines
async def test_deletion_of_domains_lifts_no_restriction(domains: Domains, clock: ManualClock) -> None:
    service, acme = domains.service, domains.acme
    await domains.verified(acme, ACME)
    await service.delete(acme, ACME, actor=ACTOR)
    clock.advance(2 * SECOND)
    for content in ({}, {"from": f"a@{ACME}"}, {"from": "a@nobody.example"}, {"from": "shop@example.com"}):
        assert "has none left, so it sends nothing" in await domains.refusal(acme, **content)
    assert [(each.name, each.since) for each in await service.list_restricted()] == [("acme", NOW)]
    # A domain that waits for its records changes nothing, and neither does its deletion.
    await service.add(acme, OTHER, actor=ACTOR)
    assert f"The domain {OTHER} is not verified" in await domains.refusal(acme, **{"from": f"a@{OTHER}"})
    await service.delete(acme, OTHER, actor=ACTOR)
    assert "sends nothing" in await domains.refusal(acme, **{"from": "a@nobody.example"})
    await service.unrestrict("acme", actor=ACTOR)
    await domains.sent(acme, **{"from": "a@nobody.example"})
    await domains.sent(acme)
    for name in ("acme", "other", "nobody"):
        with pytest.raises(NotFound):
            await service.unrestrict(name, actor=ACTOR)
    entries = await audit_log.list_entries(domains.bench.database, tenant_id=acme, limit=1)
    assert [(entry.action, entry.subject) for entry in entries] == [("domain.unrestrict", "acme")]


async def test_refusal_names_the_missing_record(domains: Domains) -> None:
    made = await domains.service.add(domains.acme, ACME, actor=ACTOR)
    name = f"{made.keys[0].selector}._domainkey.{ACME}"
    await domains.check(domains.acme, ACME)
    reason = await domains.refusal(domains.acme, **{"from": f"a@{ACME}"})
    assert reason.startswith(f"The domain {ACME} is not verified: the TXT record {name} does not exist.")


async def test_domain_can_be_verified_by_one_tenant_only(domains: Domains) -> None:
    await domains.verified(domains.acme, ACME)
    with pytest.raises(DomainExists):
        await domains.service.add(domains.acme, ACME, actor=ACTOR)
    pending = await domains.service.add(domains.other, ACME, actor=ACTOR)
    [note, *_] = await domains.service.notes(pending)
    assert note.startswith(f"Another tenant has verified {ACME}, so it cannot be verified here")
    assert "acme " not in note.lower().replace(ACME, "")  # It does not say which tenant.
    assert not (await domains.check(domains.other, ACME)).is_verified
    await domains.publish(domains.other, ACME)
    with pytest.raises(DomainTaken, match="Another tenant has verified"):
        await domains.check(domains.other, ACME)
    refused = await domains.service.find(domains.other, ACME)
    assert (refused.is_verified, refused.checked_at, keys_in(refused.keys, KeyState.ACTIVE)) == (False, NOW, [])
    assert "belongs to another tenant" in await domains.refusal(domains.other, **{"from": f"a@{ACME}"})
    await domains.service.delete(domains.acme, ACME, actor=ACTOR)
    after = await domains.check(domains.other, ACME)
    assert (after.is_verified, await domains.service.find_conflict(after)) == (True, None)


async def test_international_domain_has_both_forms(domains: Domains) -> None:
    name, ascii_name = "пример.рф", "xn--e1afmkfd.xn--p1ai"
    made = await domains.verified(domains.acme, name)
    assert (made.domain, made.is_verified) == (ascii_name, True)
    reason = await domains.refusal(domains.other, **{"from": f"a@{name}"})
    assert reason.startswith(f"The domain {name} ({ascii_name}) belongs to another tenant.")
    key = await domains.bench.engine.keys.create(domains.acme)
    async with client_of(create_app(domains.bench.engine), key) as client:
        for each in (name, ascii_name):
            shown = (await client.get(f"/v1/domains/{each}")).json()
            assert (shown["name"], shown["unicodeName"]) == (ascii_name, name)
            assert {record["name"].isascii() for record in shown["records"]} == {True}


async def test_email_without_sender_uses_the_tenants_own(domains: Domains) -> None:
    await domains.verified(domains.acme, ACME, sender=f"Acme <hello@{ACME}>")
    message = await domains.sent(domains.acme)
    assert f"From: Acme <hello@{ACME}>".encode() in message.content
    assert not message.uses_default_from
    assert b"shop@example.com" in (await domains.sent(domains.other)).content


async def test_message_accepted_before_the_first_domain_is_sent(domains: Domains, clock: ManualClock) -> None:
    waiting = replace(a_message_with(**{"from": "a@nobody.example"}), tenant_id=domains.acme)
    await domains.bench.accept(waiting)
    clock.advance(SECOND)
    await domains.verified(domains.acme, ACME)
    provider = ScriptedProvider()
    await domains.bench.drain(provider)
    assert provider.outbox_ids == [waiting.outbox_id]


@pytest.mark.parametrize(
    ("headers", "envelope"),
    [
        (f"From: a@{ACME}\r\nSender: boss@{OTHER}", None),
        (f"From: a@{ACME}, boss@{OTHER}\r\nSender: a@{ACME}", None),
        (f"From: a@{ACME}", f"boss@{OTHER}"),
        (f"From: a@{ACME} (boss@{OTHER}) <a@{ACME}>", None),
    ],
    ids=["sender", "second From", "envelope", "ambiguous"],
)
async def test_every_sender_of_waiting_raw_email_is_checked(
    domains: Domains, clock: ManualClock, headers: str, envelope: str | None
) -> None:
    content = f"{headers}\r\nTo: b@reader.example\r\nSubject: Hi\r\n\r\nHi\r\n".encode()
    context = RequestContext(Caller(domains.acme, "acme"), "r1")
    [accepted] = (await domains.bench.engine.raw_messages.send(context, content, envelope)).messages
    clock.advance(SECOND)
    await domains.verified(domains.acme, ACME)
    await domains.verified(domains.other, OTHER)
    provider = ScriptedProvider()
    await domains.bench.drain(provider)
    record = await domains.bench.record(accepted.outbox_id)
    assert (record.summary.status, provider.messages) == (Status.FAILED, [])
    assert the_event(record, EventType.FAILED).metadata["errorCode"] == "SENDER_DOMAIN_NOT_VERIFIED"


async def test_old_keys_sign_until_new_records_are_visible(domains: Domains, clock: ManualClock) -> None:
    first = await domains.verified(domains.acme, ACME)
    old = [key.selector for key in first.keys]
    clock.advance(DAY)
    rotating = await domains.service.rotate(domains.acme, ACME, actor=ACTOR)
    new = [key.selector for key in keys_in(rotating.keys, KeyState.NEW)]
    assert rotating.is_rotating
    assert len({*old, *new}) == 4
    await domains.check(domains.acme, ACME)
    assert await signed_by(domains, domains.acme) == old
    with pytest.raises(NotPossibleNow, match="waits for the TXT record"):
        await domains.service.rotate(domains.acme, ACME, actor=ACTOR)
    await domains.publish(domains.acme, ACME)
    clock.advance(MINUTE)
    done = await domains.check(domains.acme, ACME)
    assert await signed_by(domains, domains.acme) == new
    retired = keys_in(done.keys, KeyState.RETIRED)
    assert [key.selector for key in retired] == old
    assert {key.private_key for key in retired} == {None}
    assert {key.removable_at for key in retired} == {clock.now() + KEPT_FOR}


async def test_lost_dkim_records_are_a_problem_of_health(domains: Domains) -> None:
    await domains.verified(domains.acme, ACME)
    bench = domains.bench

    async def found() -> str:
        findings = await check_health(bench.engine.settings, bench.database, bench.clock)
        [finding] = [each for each in findings if each.name == "domains"]
        return f"{finding.verdict.value}: {finding.summary}"

    assert await found() == "ok: 1 verified, and their DKIM records are published"
    domains.dns.zone.clear()
    assert (await domains.check(domains.acme, ACME)).is_verified
    assert await found() == f"problem: the DKIM records of {ACME} are gone or changed"


async def test_forced_rotation_signs_with_new_keys_at_once(domains: Domains) -> None:
    await domains.service.add(domains.acme, ACME, actor=ACTOR)
    with pytest.raises(NotPossibleNow, match="not verified yet"):
        await domains.service.rotate(domains.acme, ACME, force=True, actor=ACTOR)
    await domains.publish(domains.acme, ACME)
    await domains.check(domains.acme, ACME)
    forced = await domains.service.rotate(domains.acme, ACME, force=True, actor=ACTOR)
    assert await signed_by(domains, domains.acme) == [key.selector for key in keys_in(forced.keys, KeyState.ACTIVE)]
    waiting = await domains.service.rotate(domains.acme, ACME, actor=ACTOR)
    wanted = [key.selector for key in keys_in(waiting.keys, KeyState.NEW)]
    await domains.service.rotate(domains.acme, ACME, force=True, actor=ACTOR)
    assert await signed_by(domains, domains.acme) == wanted


async def signed_by(domains: Domains, tenant: int) -> list[str]:
    content = (await domains.sent(tenant, **{"from": f"a@{ACME}"})).content.decode()
    return [part.split(";")[0] for part in content.split(f"d={ACME}; s=")[1:]]


@pytest.mark.both_engines
async def test_background_checks_verify_and_rotate(domains: Domains, clock: ManualClock) -> None:
    await domains.service.add(domains.acme, ACME, actor=ACTOR)
    await domains.service.add(domains.other, ACME, actor=ACTOR)
    await domains.publish(domains.acme, ACME)
    await domains.publish(domains.other, ACME)
    await domains.service.check_due()
    assert (await domains.service.find(domains.acme, ACME)).is_verified
    assert not (await domains.service.find(domains.other, ACME)).is_verified
    await domains.service.rotate(domains.acme, ACME, actor=ACTOR)
    await domains.publish(domains.acme, ACME)
    await domains.service.check_due()
    assert (await domains.service.find(domains.acme, ACME)).is_rotating
    clock.advance(6 * MINUTE)
    await domains.service.check_due()
    assert not (await domains.service.find(domains.acme, ACME)).is_rotating


async def test_silent_or_malformed_dns_gives_a_sentence(domains: Domains, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.app.dns_lookup.DNS_SECONDS", 0.1)
    made = await domains.service.add(domains.acme, ACME, actor=ACTOR)
    rsa, edwards = [f"{key.selector}._domainkey.{ACME}" for key in made.keys]
    domains.dns.silent = {rsa}
    domains.dns.nonsense = {edwards: b"\x80\x00\xff\xff\xc0\x0c\xc0\x0c"}
    found = {each.record.name: each for each in (await domains.check(domains.acme, ACME)).results}
    assert {found[name].state for name in (rsa, edwards)} == {DnsState.UNKNOWN}
    assert found[rsa].detail == f"{rsa}: DNS did not answer within 0.1 seconds."


async def test_dkim_records_behind_aliases_are_followed(domains: Domains) -> None:
    made = await domains.service.add(domains.acme, ACME, actor=ACTOR)
    rsa, edwards = [f"{key.selector}._domainkey.{ACME}" for key in made.keys]
    domains.dns.zone[("TXT", "key.host.example")] = [made.keys[0].record]
    domains.dns.aliases = {rsa: "key.host.example", edwards: "loop.host.example", "loop.host.example": edwards}
    found = {each.record.name: each for each in (await domains.check(domains.acme, ACME)).results}
    assert found[rsa].state is DnsState.OK
    assert (found[edwards].state, found[edwards].detail) == (
        DnsState.UNKNOWN,
        f"{edwards}: DNS gave no usable answer.",
    )


async def test_huge_and_hostile_records_are_bounded(domains: Domains) -> None:
    await domains.service.add(domains.acme, ACME, actor=ACTOR)
    domains.dns.zone[("TXT", ACME)] = [f"v=spf1 a:{number}.example -all" for number in range(300)]
    domains.dns.zone[("TXT", f"_dmarc.{ACME}")] = ["v=DMARC1; p=none; \u202e\x1b[31m" + "x" * 900]
    found = {each.record.purpose: each for each in (await domains.check(domains.acme, ACME)).results}
    spf = found[RecordPurpose.SPF]
    assert (spf.state, "more than 100 records" in spf.detail) == (DnsState.UNKNOWN, True)
    shown = found[RecordPurpose.DMARC].detail
    assert (shown.isprintable(), len(shown) < 260) == (True, True)


async def test_domain_without_replies_is_named_and_verified(domains: Domains) -> None:
    await domains.verified(domains.acme, ACME)
    for published, state in (([], DnsState.MISSING), (["0 "], DnsState.WRONG), (["5 mx.acme.example"], DnsState.OK)):
        domains.dns.zone[("MX", ACME)] = published
        checked = await domains.check(domains.acme, ACME)
        [replies] = [each for each in checked.results if each.record.purpose is RecordPurpose.REPLIES]
        assert (replies.state, checked.state) == (state, "verified")
    assert replies.detail == f"{ACME} receives replies at 5 mx.acme.example."


async def test_spf_allows_every_provider_of_the_tenant(domains: Domains) -> None:
    providers = domains.bench.engine.providers
    for name, host in (("acme-google", "smtp-relay.gmail.com"), ("acme-relay", "mail.host.example")):
        await providers.create(name, "smtp", {"smtp_url": f"smtp://user:pass@{host}:587"}, actor=ACTOR)
    await providers.create("acme-post", "postmark", {"postmark_server_token": "x" * 36}, actor=ACTOR)
    routes = ((None, "acme-google"), (Source.CAMPAIGN, "acme-relay"), (Source.SEQUENCE, "acme-post"))
    for source, name in routes:
        await providers.set_route(domains.acme, source, name, actor=ACTOR)
    shown = {}
    for tenant, domain in ((domains.acme, ACME), (domains.other, OTHER)):
        made = await domains.service.add(tenant, domain, actor=ACTOR)
        records = [each.record for each in await domains.service.records(made)]
        [shown[domain]] = [(each.value, each.hint) for each in records if each.purpose is RecordPurpose.SPF]
        notes = await domains.service.notes(made)
        assert ["Postmark" in note for note in notes] == ([True] if domain == ACME else [])
    assert shown[ACME] == ("v=spf1 include:_spf.google.com a:mail.host.example ~all", "")
    assert (shown[OTHER][0], "Connect a provider first" in shown[OTHER][1]) == ("", True)
    health = await check_health(domains.bench.engine.settings, domains.bench.database, domains.bench.clock)
    [delivery] = [each.summary for each in health if each.name == "delivery"]
    assert delivery.startswith("email without a route to a provider goes to the local mailbox")


@pytest.mark.parametrize(
    ("published", "state", "sentence"),
    [
        (["v=DKIM1; k=rsa; p="], DnsState.WRONG, "revokes the key"),
        (["v=DKIM1; k=rsa; p=AAAA", "hello"], DnsState.WRONG, "has 2 TXT records"),
        (["v=DKIM1; k=rsa; p=AAAA"], DnsState.WRONG, "has another key: v=DKIM1; k=rsa; p=AAAA"),
        ([";;;=;p\x00"], DnsState.WRONG, "not a list of tags"),
    ],
)
async def test_wrong_dkim_record_is_named(domains: Domains, published: list[str], state: str, sentence: str) -> None:
    made = await domains.service.add(domains.acme, ACME, actor=ACTOR)
    domains.dns.zone[("TXT", f"{made.keys[0].selector}._domainkey.{ACME}")] = published
    [found, *_] = (await domains.check(domains.acme, ACME)).results
    assert (found.state, sentence in found.detail) == (state, True)


@pytest.mark.parametrize(
    "name", ["", "acme", "a@acme.example", "acme .example", "x" * 300, "1.2.3.4", "-a.example", "é"]
)
async def test_invalid_domain_names_are_refused(domains: Domains, name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        await domains.service.add(domains.acme, name, actor=ACTOR)
    assert raised.value.field == "name"
    with pytest.raises(NotFound):
        await domains.service.check(domains.acme, name, actor=ACTOR)


async def test_default_sender_must_belong_to_the_domain(domains: Domains) -> None:
    for sender in (f"a@{OTHER}", "nobody", f"a\r\nBcc: x <a@{ACME}>"):
        with pytest.raises(InvalidInput) as raised:
            await domains.service.add(domains.acme, ACME, sender=sender, actor=ACTOR)
        assert raised.value.field == "sender"


async def test_return_path_is_used_once_its_records_are_visible(engine: DatabaseAddress, clock: ManualClock) -> None:
    settings = {"return_path_host": "mx.host.example", "bounce_address": "bounces@host.example"}
    async with a_dns_server() as dns, a_bench(engine.url, clock, dns_servers=dns.address, **settings) as bench:
        tenant = await a_tenant(bench.database, "acme")
        domains = Domains(bench, dns, tenant, 0)
        await domains.verified(tenant, ACME)
        message = await domains.sent(tenant, **{"from": f"a@{ACME}"})
        assert message.sender == f"bounces+{message.outbox_id}@bounce.{ACME}"
        assert not message.uses_default_sender
        dns.zone[("MX", f"bounce.{ACME}")] = ["10 mx.elsewhere.example"]
        await domains.check(tenant, ACME)
        message = await domains.sent(tenant, **{"from": f"a@{ACME}"})
        assert message.sender == f"bounces+{message.outbox_id}@host.example"


async def test_global_key_signs_domains_that_no_tenant_has(engine: DatabaseAddress, clock: ManualClock) -> None:
    key = {"dkim_selector": "global", "dkim_key": new_private_key()}
    async with a_dns_server() as dns, a_bench(engine.url, clock, dns_servers=dns.address, **key) as bench:
        domains = Domains(bench, dns, 1, await a_tenant(bench.database, "other"))
        assert b"s=global;" in (await domains.sent(1)).content
        await domains.service.add(1, "example.com", actor=ACTOR)
        # While the domain waits for its records, the default tenant sends as before.
        assert b"s=global;" in (await domains.sent(1, **{"from": "news@example.com"})).content
        await domains.publish(1, "example.com")
        await domains.check(1, "example.com")
        message = await domains.sent(1, **{"from": "news@example.com"})
        assert (b"s=global;" in message.content, len(domains.signatures(message.content))) == (False, 2)
        # Other tenants keep the sender of the installation, and get no other address of its domain.
        assert len(domains.signatures((await domains.sent(domains.other)).content)) == 2
        assert "another tenant" in await domains.refusal(domains.other, **{"from": "news@example.com"})


async def test_installation_can_require_verified_domains(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with (
        a_dns_server() as dns,
        a_bench(engine.url, clock, dns_servers=dns.address, require_sender_domains=True) as bench,
    ):
        domains = Domains(bench, dns, 1, 0)
        assert "example.com is not one of your sender domains" in await domains.refusal(1)
        await bench.engine.users.create("ada@example.com", "correct horse battery", Role.ADMIN, actor="test")
        await bench.engine.account_links.request_reset("ada@example.com")
        provider = ScriptedProvider()
        await bench.drain(provider)
        assert len(provider.messages) == 1  # Mailwright's own emails to users are always sent.
        await domains.verified(1, "example.com")
        await domains.sent(1)


async def test_second_tenant_needs_a_verified_domain_by_default(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with (
        a_dns_server() as dns,
        a_bench(engine.url, clock, dns_servers=dns.address, require_sender_domains="auto") as bench,
    ):
        domains = Domains(bench, dns, 1, 0)
        await domains.sent(1, **{"from": "a@unknown.example"})  # The only tenant is not restricted.
        [waiting] = await bench.accept(a_message_with(**{"from": "a@unknown.example"}))
        clock.advance(SECOND)
        acme = (await tenants.create(bench.database, clock, "acme")).id
        other = (await tenants.create(bench.database, clock, "other")).id
        clock.advance(2 * SECOND)
        await bench.drain(ScriptedProvider())
        assert (await bench.record(waiting)).summary.status == Status.SENT  # It was accepted before.
        await domains.service.add(other, "pending.example", actor=ACTOR)
        refused = (
            "a@unknown.example",
            "news@example.com",
            "shop@example.com",
            "a@pending.example",
            "a@sub.pending.example",
        )
        for sender in refused:
            assert "is not one of your sender domains" in await domains.refusal(acme, **{"from": sender})
        assert "is not one of your sender domains" in await domains.refusal(acme)  # The sender of the installation.
        await domains.sent(1)
        await domains.sent(1, **{"from": "news@mail.example.com"})
        assert "is not one of your sender domains" in await domains.refusal(1, **{"from": "a@unknown.example"})
        await domains.verified(acme, ACME)
        await domains.sent(acme, **{"from": f"a@{ACME}"})


@pytest.mark.parametrize(
    "body", [{"from": "a@unknown.example"}, {"from": "shop@example.com"}, {"from": "a@pending.example"}]
)
async def test_api_refuses_foreign_senders_of_a_second_tenant(
    engine: DatabaseAddress, clock: ManualClock, body: dict[str, str]
) -> None:
    async with a_bench(engine.url, clock, require_sender_domains="auto") as bench:
        acme = await tenants.create(bench.database, clock, "acme")
        other = await tenants.create(bench.database, clock, "other")
        await bench.engine.sender_domains.add(other.id, "pending.example", actor=ACTOR)
        clock.advance(2 * SECOND)
        app = create_app(bench.engine)
        async with client_of(app, await bench.engine.keys.create(acme.id)) as client:
            answer = await client.post(
                "/v1/email/send", json={"to": "a@b.example", "subject": "x", "text": "x", **body}
            )
            assert (answer.status_code, answer.json()["code"]) == (403, "SENDER_DOMAIN_NOT_VERIFIED"), answer.text
            email = f"From: {body['from']}\r\nTo: a@b.example\r\nSubject: x\r\n\r\nx\r\n"
            raw = await client.post("/v1/email/raw", content=email, headers={"Content-Type": "message/rfc822"})
            assert (raw.status_code, raw.json()["code"]) == (403, "SENDER_DOMAIN_NOT_VERIFIED"), raw.text
        await app.state.finish()


@pytest.mark.parametrize("name", ["co.uk", "com", "CO.UK.", "github.io", "xn--p1ai", "рф", "anything.ck"])
async def test_public_suffix_is_not_a_sender_domain(domains: Domains, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await domains.service.add(domains.acme, name, actor=ACTOR)
    assert refused.value.field == "name"
    assert await domains.service.list_all(domains.acme) == []


@pytest.mark.parametrize("name", ["acme.co.uk", "www.ck", "acme.github.io", "intranet.corp"])
async def test_domain_below_a_public_suffix_is_accepted(domains: Domains, name: str) -> None:
    assert (await domains.service.add(domains.acme, name, actor=ACTOR)).domain == name


async def test_keys_that_cannot_be_read_send_nothing(
    engine: DatabaseAddress, domains: Domains, clock: ManualClock
) -> None:
    await domains.verified(domains.acme, ACME)
    async with a_bench(engine.url, clock, secret_key="z" * 32) as bench:
        other = Domains(bench, domains.dns, domains.acme, 0)
        outbox_id, messages = await other.send(domains.acme, **{"from": f"a@{ACME}"})
        failed = the_event(await bench.record(outbox_id), EventType.FAILED).metadata
        assert (messages, failed["errorCode"]) == ([], "SENDER_KEYS_UNREADABLE")


async def test_campaign_starts_only_with_a_verified_sender(domains: Domains) -> None:
    engine = domains.bench.engine
    await join(domains.bench.database, ["reader@example.com"], tenant_id=domains.acme)
    await domains.verified(domains.acme, ACME)
    actor = Actor("ada", domains.acme)
    made = await engine.campaigns.create(actor, domains.acme, a_definition(**{"from": f"a@{OTHER}"}))
    for act in (
        engine.campaigns.start(actor, made.campaign_id),
        engine.campaigns.test_send(actor, made.campaign_id, ["ada@example.com"]),
    ):
        with pytest.raises(CampaignNotStartable, match="not one of your sender domains"):
            await act
    own = await engine.campaigns.create(actor, domains.acme, a_definition(**{"from": f"a@{ACME}"}))
    await engine.campaigns.start(actor, own.campaign_id)
    provider = ScriptedProvider()
    await domains.bench.drain(provider)
    [message] = provider.messages
    assert domains.signatures(message.content) == [("rsa-sha256", True), ("ed25519-sha256", True)]


async def test_default_sender_with_a_name_starts_a_campaign(domains: Domains) -> None:
    engine = domains.bench.engine
    await join(domains.bench.database, ["reader@example.com"], tenant_id=domains.acme)
    await domains.verified(domains.acme, ACME, sender=f"Acme <news@{ACME}>")
    actor = Actor("ada", domains.acme)
    made = await engine.campaigns.create(actor, domains.acme, a_definition())
    await engine.campaigns.start(actor, made.campaign_id)
    foreign = await engine.campaigns.create(actor, domains.acme, a_definition(**{"from": f"Acme <a@{OTHER}>"}))
    with pytest.raises(CampaignNotStartable, match=f"{OTHER} is not one") as refused:
        await engine.campaigns.start(actor, foreign.campaign_id)
    assert [problem.field for problem in refused.value.problems] == ["from"]


@pytest.mark.promise("sender-domains")
async def test_own_verified_domain_gives_no_foreign_warning(domains: Domains) -> None:
    engine = domains.bench.engine
    await domains.verified(domains.acme, ACME)
    codes = []
    for tenant, sender in ((domains.acme, f"Acme <a@news.{ACME}>"), (domains.other, "a@nobody.example")):
        context = RequestContext(Caller(tenant, "key"), "r1")
        body = {"to": "b@reader.example", "subject": "Hi", "text": "Hi"}
        content = f"From: {sender}\r\nTo: b@reader.example\r\nSubject: Hi\r\n\r\nHi\r\n".encode()
        json = await engine.api_messages.send(context, {**body, "from": sender})
        raw = await engine.raw_messages.send(context, content)
        codes.append([each.code for each in (*json.warnings, *raw.warnings)])
    assert codes == [[], ["FOREIGN_FROM", "FOREIGN_FROM"]]
    assert "add nobody.example to your sender domains" in raw.warnings[0].detail
