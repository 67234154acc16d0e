"""DMARC reports belong to the tenant of their domain, are stored once, and are compared with what was sent."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from mailwright.app.dmarc import require_reported_domain
from mailwright.app.inbound import make_recorder
from mailwright.app.retention import make_retention
from mailwright.app.sender_domain_records import check_records, records_of
from mailwright.app.spf import SpfAdvice
from mailwright.content.dkim_key import new_private_key
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.dkim_rotation import DomainKey
from mailwright.domain.dns_records import RecordPurpose
from mailwright.domain.errors import NotFound
from mailwright.domain.retention import RetentionKind, RetentionRule
from mailwright.events.bounce_mail import BounceMailboxReader
from mailwright.events.bounces import open_mailbox
from mailwright.events.dmarc.recorder import ImportedReport
from mailwright.outbox.dmarc_reports import (
    MAX_REFUSALS,
    DomainReport,
    list_refusals,
    list_totals,
    load_domain_report,
)
from mailwright.outbox.retention_rules import set_rule
from mailwright.outbox.sender_domains import SenderDomain, change_domain, insert_domain
from mailwright.storage.tables import dmarc_refusals, dmarc_sources, reports, suppressions
from tests.api import an_api
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_message_with, a_tenant
from tests.conftest import DatabaseAddress
from tests.dmarc import DOMAIN, a_report, a_row, an_email, gzipped, zipped
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("dmarc-reports")

SELECTOR = "mwr00c0ffee"
OTHER = "other.example"
ZIP = "application/zip"


@dataclass
class Receivers:
    """An engine with two tenants, each with a verified domain."""

    bench: Bench
    acme: int
    other: int

    @property
    def begins(self) -> int:
        """The beginning of yesterday, in Unix seconds."""
        now = self.bench.clock.now()
        return (now - now % DAY - DAY) // 1000

    async def add(self, tenant: int, content: bytes) -> ImportedReport:
        [found] = await self.bench.engine.dmarc.import_file(tenant, content)
        return found

    async def receive(self, content: bytes) -> tuple[str, list[ImportedReport]]:
        engine = self.bench.engine
        recorder = make_recorder(engine.settings, engine.database, engine.clock, engine.reports, engine.acceptor)
        recorded = await recorder.record(content)
        return recorded.kind, list(recorded.dmarc)

    async def report(self, tenant: int, domain: str = DOMAIN) -> DomainReport:
        return await load_domain_report(self.bench.database, tenant, domain, self.bench.clock.now())

    async def send(self, tenant: int, *recipients: str, **content: Any) -> None:
        messages = [a_message_with(**content) for _ in recipients]
        await self.bench.accept(
            *(
                replace(message, tenant_id=tenant, to_email=email, payload={**message.payload, "to": email})
                for message, email in zip(messages, recipients, strict=True)
            )
        )
        await self.bench.drain(ScriptedProvider())


async def a_verified_domain(bench: Bench, tenant: int, name: str, selector: str = SELECTOR) -> SenderDomain:
    async with bench.database.write() as tx:
        private_key = await bench.database.secret_box.encrypt(tx, new_private_key("ed25519"))
        key = DomainKey(selector, "ed25519", "v=DKIM1; p=", 0, 0, private_key=private_key)
        made = await insert_domain(tx, tenant, name, sender=f"news@{name}", keys=[key], now=0)
        return await change_domain(tx, made, 0, verified_at=1)


@pytest.fixture
async def receivers(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Receivers]:
    async with a_bench(engine.url, clock) as bench:
        acme, other = [await a_tenant(bench.database, name) for name in ("acme", "rival")]
        await a_verified_domain(bench, acme, DOMAIN)
        await a_verified_domain(bench, other, OTHER, "mwrother")
        yield Receivers(bench, acme, other)


async def test_report_is_stored_once_and_summarized(receivers: Receivers) -> None:
    rows = [
        a_row(count=90, selector=SELECTOR),
        a_row(count=5, selector="google"),
        a_row("203.0.113.9", 4, dkim="fail", spf="fail", disposition="reject"),
    ]
    content = a_report(*rows, begins=receivers.begins)
    outcomes = [(await receivers.add(receivers.acme, each)).outcome for each in (content, zipped(content), content)]
    assert outcomes == ["stored", "repeated", "repeated"]
    found = await receivers.report(receivers.acme)
    assert (found.totals.reports, found.totals.messages, found.totals.aligned, found.policy) == (1, 99, 95, "none")
    ours, theirs = found.sources
    assert (ours.source_ip, ours.messages, ours.aligned, ours.signed) == ("198.51.100.7", 95, 95, 90)
    assert (theirs.source_ip, theirs.aligned, theirs.rejected) == ("203.0.113.9", 0, 4)
    assert [(day.messages, day.aligned) for day in found.days if day.messages] == [(99, 95)]
    assert len(found.days) == 30
    assert [each.domain for each in await list_totals(receivers.bench.database, receivers.acme, 0)] == [DOMAIN]


async def test_import_says_which_rows_were_skipped(receivers: Receivers) -> None:
    content = a_report(a_row(count=3), a_row(count=-5), a_row("nowhere"), begins=receivers.begins)
    found = await receivers.add(receivers.acme, content)
    assert (found.outcome, found.skipped_rows) == ("stored", 2)
    assert found.reason == "2 rows were skipped, because row 2 has the number of messages '-5'."
    assert (await receivers.report(receivers.acme)).totals.messages == 3


async def test_concurrent_copies_are_stored_once(receivers: Receivers) -> None:
    content = a_report(begins=receivers.begins)
    found = await asyncio.gather(*(receivers.add(receivers.acme, content) for _ in range(5)))
    assert sorted(each.outcome for each in found) == ["repeated"] * 4 + ["stored"]
    assert (await receivers.report(receivers.acme)).totals.messages == 10


async def test_tenant_cannot_store_or_read_reports_of_another(receivers: Receivers) -> None:
    content = a_report(begins=receivers.begins)
    foreign, unknown = [
        await receivers.add(receivers.other, each)
        for each in (content, a_report(begins=receivers.begins, domain="nobody.example"))
    ]
    assert (foreign.outcome, foreign.reason) == ("refused", f"{DOMAIN} is not a verified sender domain of this tenant.")
    assert str(unknown.reason).removeprefix("nobody.example") == str(foreign.reason).removeprefix(DOMAIN)
    await receivers.add(receivers.acme, content)
    assert (await receivers.report(receivers.other)).totals.messages == 0
    engine = receivers.bench.engine
    with pytest.raises(NotFound):
        await require_reported_domain(engine.database, engine.directory, receivers.other, DOMAIN)


async def test_rows_belong_to_the_tenant_of_their_from_domain(receivers: Receivers) -> None:
    await a_verified_domain(receivers.bench, receivers.other, f"eu.{DOMAIN}", "mwreu")
    rows = [a_row(count=7), a_row(count=2, header_from=f"eu.{DOMAIN}"), a_row(count=1, header_from="nobody.example")]
    kind, [imported] = await receivers.receive(
        an_email([("r.zip", zipped(a_report(*rows, begins=receivers.begins)), ZIP)])
    )
    assert (kind, imported.outcome) == ("dmarc_report", "stored")
    assert (await receivers.report(receivers.acme)).totals.messages == 7
    assert (await receivers.report(receivers.other, f"eu.{DOMAIN}")).totals.messages == 2


async def test_reports_about_the_settings_domain_belong_to_the_default_tenant(receivers: Receivers) -> None:
    content = a_report(a_row(header_from="shop.example"), begins=receivers.begins, domain="shop.example")
    url = str(receivers.bench.engine.settings.database_url)
    async with a_bench(url, receivers.bench.clock, sender="a@shop.example") as bench:
        [imported] = await bench.engine.dmarc.import_file(DEFAULT_TENANT, content)
        assert imported.outcome == "stored"
    assert (await receivers.report(DEFAULT_TENANT, "shop.example")).totals.messages == 10


async def test_numbers_are_compared_with_sent_messages(receivers: Receivers) -> None:
    clock = receivers.bench.clock
    await receivers.send(receivers.acme, "early@gmail.com")
    clock.advance(DAY)
    at = clock.now() - clock.now() % DAY
    await receivers.send(receivers.acme, "a@gmail.com", "b@googlemail.com", "c@yahoo.com")
    await receivers.send(receivers.acme, "d@gmail.com", **{"from": f"Other <x@sub.{DOMAIN}>"})
    await receivers.send(receivers.other, "e@gmail.com")
    clock.advance(DAY)
    await receivers.send(receivers.acme, "late@gmail.com")
    google = a_report(a_row(count=5, selector=SELECTOR), begins=at // 1000)
    small = a_report(a_row(count=2), begins=at // 1000, reporter="small.example")
    microsoft = a_report(a_row(count=1, envelope_to="yahoo.com"), begins=at // 1000, reporter="Outlook.com")
    old = a_report(begins=at // 1000 - 10 * 86_400, reporter="Yahoo")
    for content in (google, small, microsoft, old):
        await receivers.add(receivers.acme, content)
    found = {each.reporter: each for each in (await receivers.report(receivers.acme)).reporters}
    assert (found["google.com"].sent, found["google.com"].compared) == (3, 5)
    assert "saw 5 aligned messages, Mailwright sent 3: 2 are not from Mailwright" in found["google.com"].sentence
    assert (found["Outlook.com"].sent, found["small.example"].sent, found["Yahoo"].sent) == (1, None, None)
    assert "do not say which" in found["small.example"].sentence
    assert "too long after" in found["Yahoo"].sentence


async def test_mailbox_goes_on_after_hostile_reports(receivers: Receivers, tmp_path: Path) -> None:
    bomb, parts = gzipped(b" " * 30_000_000), gzipped(b"") * 21
    declared = f"Report Domain: {DOMAIN} Submitter: evil.example Report-ID: 1"
    emails = [
        an_email([("a.gz", bomb, "application/gzip")], subject=declared, text="550 5.1.1 user unknown"),
        an_email([("a.gz", parts + gzipped(a_report(begins=receivers.begins)), "application/gzip")], subject=declared),
        an_email([("a.zip", zipped(a_report(begins=receivers.begins, domain="nobody.example")), ZIP)]),
        an_email([("a.zip", zipped(a_report(begins=receivers.begins, ends=5)), ZIP)]),
        an_email([("a.zip", zipped(a_report(begins=receivers.begins)), ZIP)]),
    ]
    for folder in ("new", "cur", "tmp"):
        (tmp_path / folder).mkdir()
    for number, content in enumerate(emails):
        (tmp_path / "new" / f"{number}").write_bytes(content)
    engine = receivers.bench.engine
    recorder = make_recorder(engine.settings, engine.database, engine.clock, engine.reports, engine.acceptor)
    reader = BounceMailboxReader(open_mailbox(f"maildir:{tmp_path}"), recorder)
    assert (await reader.poll(), await reader.poll()) == (5, 0)
    assert (await receivers.report(receivers.acme)).totals.messages == 10
    own = await list_refusals(engine.database, receivers.acme)
    assert [each.reason for each in own] == ["The report ends before it begins."]
    unowned = await list_refusals(engine.database, DEFAULT_TENANT, with_unowned=True)
    assert {each.domain for each in unowned} == {"", "nobody.example"}
    assert await list_refusals(engine.database, receivers.other) == []
    async with engine.database.read() as tx:
        assert [await tx.execute(select(each)) for each in (reports, suppressions)] == [[], []]


async def test_refusals_are_limited(receivers: Receivers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.outbox.dmarc_reports.MAX_REFUSALS", 3)
    assert MAX_REFUSALS > 3
    for number in range(5):
        content = a_report(begins=receivers.begins, domain=f"n{number}.example")
        await receivers.receive(an_email([("x.xml", content, "text/xml")]))
    async with receivers.bench.database.read() as tx:
        kept = await tx.execute(select(dmarc_refusals.c.domain).order_by(dmarc_refusals.c.id))
    assert [row.domain for row in kept] == ["n2.example", "n3.example", "n4.example"]


async def test_retention_deletes_old_reports_with_their_rows(receivers: Receivers) -> None:
    bench = receivers.bench
    await receivers.add(receivers.acme, a_report(begins=receivers.begins))
    bench.clock.advance(40 * DAY)
    await receivers.add(receivers.acme, a_report(a_row(count=3), begins=receivers.begins, report_id="new"))
    rule = RetentionRule(receivers.acme, RetentionKind.DMARC, 30, exports=False)
    retention = make_retention(bench.engine.settings, bench.database, bench.clock)
    await set_rule(
        bench.database, bench.clock, receivers.acme, RetentionKind.DMARC, days=30, exports=False, actor="console"
    )
    assert (await retention.preview(receivers.acme, RetentionKind.DMARC, 30)).rows == 2
    assert (await retention.run_batch(rule, 100)).rows == 2
    async with bench.database.read() as tx:
        assert (await tx.execute(select(func.sum(dmarc_sources.c.messages))))[0][0] == 3


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, f"dmarc@{DOMAIN}"),
        ({"bounce_address": "b@host.example"}, f"dmarc@{DOMAIN}"),
        ({"bounce_address": "b@host.example", "bounce_mailbox": "maildir:/mail"}, "b@host.example"),
        ({"bounce_address": "b@host.example", "return_path_host": "mx.host.example"}, f"b@bounce.{DOMAIN}"),
    ],
)
async def test_dmarc_record_names_the_mailbox_that_is_read(
    receivers: Receivers, settings: dict[str, str], address: str
) -> None:
    domain = await receivers.bench.engine.sender_domains.find(receivers.acme, DOMAIN)
    changed = receivers.bench.engine.settings.model_copy(update=settings)
    records = records_of(domain, changed, SpfAdvice())
    [record] = [each for each in records if each.purpose is RecordPurpose.DMARC]
    assert record.value == f"v=DMARC1; p=none; rua=mailto:{address}"
    allowing = [each for each in records if each.purpose is RecordPurpose.DMARC_REPORTS]
    is_foreign = address.endswith("@host.example")
    assert [each.name for each in allowing] == ([f"{DOMAIN}._report._dmarc.host.example"] if is_foreign else [])

    async def look_up(name: str, kind: str) -> list[str]:
        return answers.get(name, [])

    for found, state in ((["v=DMARC1;"], "ok"), (["v=spf1 -all"], "wrong"), ([], "missing")):
        answers = {f"{DOMAIN}._report._dmarc.host.example": found}
        for each in allowing:
            assert [result.state for result in await check_records([each], look_up)] == [state]


async def test_api_imports_and_shows_reports(receivers: Receivers) -> None:
    bench = receivers.bench
    await a_verified_domain(bench, DEFAULT_TENANT, "shop.example", "mwrshop")
    content = a_report(a_row(header_from="shop.example"), begins=receivers.begins, domain="shop.example")
    async with an_api(bench.database, bench.clock) as api:
        stored = (await api.client.post("/v1/dmarc-reports", content=gzipped(content))).json()
        assert (stored["stored"], stored["reports"][0]["outcome"]) == (1, "stored")
        refused = (await api.client.post("/v1/dmarc-reports?fileName=a.txt", content=b"hello")).json()
        assert (refused["refused"], refused["reports"][0]["name"]) == (1, "a.txt")
        listed = (await api.client.get("/v1/dmarc-reports")).json()["domains"]
        assert [(each["domain"], each["messages"], each["failing"]) for each in listed] == [("shop.example", 10, 0)]
        shown = (await api.client.get("/v1/dmarc-reports/shop.example")).json()
        assert (shown["policy"], shown["byReporter"][0]["reporter"], len(shown["days"])) == ("none", "google.com", 30)
        assert (await api.client.get(f"/v1/dmarc-reports/{DOMAIN}")).status_code == 404
