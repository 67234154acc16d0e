"""Attachments of campaigns, on both engines: stored once, carried by every message, fixed by the start."""

from base64 import b64decode
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from sqlalchemy import func, select

from mailwright.content.attachments import MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES, EnclosureCache
from mailwright.content.mime import EmailAttachment
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.outbox.audit import audit
from mailwright.sources.api.requests import parse_file
from mailwright.sources.campaigns.attachments import read_content
from mailwright.sources.campaigns.checks import check_campaign
from mailwright.storage.tables import campaign_attachments, messages
from mailwright.worker import builder
from tests.builders import DEFAULT_TENANT, Bench, a_bench
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider
from tests.standins.sendgrid import SendGridStandIn
from tests.standins.ses import SesStandIn
from tests.standins.smtp_sink import SmtpSink
from tests.unit.providers.sendgrid_builders import sendgrid_to
from tests.unit.providers.ses_builders import ses_to

PDF = EmailAttachment("Предложение 2027.pdf", "application/pdf", b"%PDF-1.7\r\n.\r\n" + bytes(range(256)) * 40)
LOGO = EmailAttachment("logo.png", "image/png", b"\x89PNG\r\n\x1a\n" + b"." * 90, "logo")
TEST = {"variants": [{"name": "A"}, {"name": "B", "subject": "Other news for {{ name }}"}], "testPercent": 100}


@pytest.fixture
async def desk(bench: Bench) -> AsyncIterator[CampaignHarness]:
    yield CampaignHarness(bench)
    assert (await audit(bench.database)).ok


def files(content: bytes) -> list[tuple[str, str, str, bytes]]:
    """Return the attachments of an email as a mail program finds them."""
    parsed = message_from_bytes(content, policy=policy.default)
    assert isinstance(parsed, EmailMessage)
    return [
        (part.get_filename() or "", part.get_content_type(), part.get_content_disposition() or "", part.get_content())
        for part in parsed.walk()
        if part.get_content_disposition()
    ]


def text_of(content: bytes) -> tuple[str, str]:
    parsed = message_from_bytes(content, policy=policy.default)
    assert isinstance(parsed, EmailMessage)
    plain, html = parsed.get_body(("plain",)), parsed.get_body(("html",))
    assert plain is not None
    assert html is not None
    return plain.get_content(), html.get_content()


CARRIED = [
    ("logo.png", "image/png", "inline", LOGO.content),
    (PDF.filename, "application/pdf", "attachment", PDF.content),
]


async def started(desk: CampaignHarness, recipients: int, *attached: EmailAttachment, **changes: object) -> str:
    await join(desk.database, [address_of(number) for number in range(recipients)])
    campaign_id = await desk.create(**changes)
    await desk.campaigns.attach(OPERATOR, campaign_id, attached)
    await desk.campaigns.start(OPERATOR, campaign_id)
    return campaign_id


async def stored_contents(desk: CampaignHarness) -> int:
    async with desk.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(campaign_attachments)))[0][0])


# What recipients get.


@pytest.mark.promise("campaign-attachments")
async def test_smtp_server_receives_the_files(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with (
        SmtpSink() as sink,
        a_bench(engine.url, clock, provider="smtp", smtp_url=f"{sink.url}?tls=none") as bench,
    ):
        desk = CampaignHarness(bench)
        campaign_id = await started(desk, 3, PDF, LOGO)
        await bench.drain()
        assert await desk.status(campaign_id) == "SENT"
        assert sink.violations == []
        assert [files(message.content) for message in sink.messages] == [CARRIED] * 3
        plain, html = text_of(sink.messages[0].content)
        assert ("Hello Ann" in plain, "Hello Ann" in html) == (True, True)
        assert max(map(len, sink.messages[0].content.split(b"\r\n"))) <= 998


async def test_sendgrid_receives_the_files(desk: CampaignHarness) -> None:
    async with SendGridStandIn() as stand_in, sendgrid_to(stand_in) as sendgrid:
        await started(desk, 1, PDF, LOGO)
        await desk.bench.drain(sendgrid)
        [email] = stand_in.messages
    found = {each["filename"]: (each["type"], b64decode(each["content"])) for each in email["attachments"]}
    assert found == {each.filename: (each.content_type, each.content) for each in (PDF, LOGO)}
    assert [each.get("content_id") for each in email["attachments"]] == ["logo", None]
    assert {each["type"] for each in email["content"]} == {"text/plain", "text/html"}


async def test_ses_receives_the_files(desk: CampaignHarness) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        await started(desk, 1, PDF, LOGO)
        await desk.bench.drain(ses)
        assert [files(message.content) for message in stand_in.messages] == [CARRIED]


async def test_variants_and_rendered_templates_share_the_files(desk: CampaignHarness) -> None:
    loops = "<p>{% for one in [1, 2] %}{{ name }}{% endfor %}</p><p>{{ unsubscribe_url }}</p>"
    await started(desk, 4, PDF, experiment=TEST, content={"subject": "News for {{ name }}", "body": loops})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert [files(message.content) for message in provider.messages] == [[CARRIED[1]]] * 4
    assert "AnnAnn" in text_of(provider.messages[0].content)[1]


async def test_test_send_carries_the_files(desk: CampaignHarness) -> None:
    campaign_id = await desk.create()
    await desk.campaigns.attach(OPERATOR, campaign_id, [PDF, LOGO])
    await desk.campaigns.test_send(OPERATOR, campaign_id, ["desk@example.com"])
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert files(provider.messages[0].content) == CARRIED


async def test_content_is_stored_once_for_all_messages(desk: CampaignHarness) -> None:
    await started(desk, 30, PDF)
    await desk.run_scheduler()
    async with desk.database.read() as tx:
        rows = await tx.execute(select(messages.c.payload))
    assert len(rows) == 30
    assert max(len(row.payload) for row in rows) < 400
    assert await stored_contents(desk) == 1


async def test_files_are_read_and_encoded_once(desk: CampaignHarness) -> None:
    campaign = await desk.campaigns.attach(OPERATOR, await desk.create(), [PDF, LOGO])
    ids = tuple(each.attachment_id for each in campaign.attachments)
    cache = EnclosureCache(desk.database)
    assert await cache.load(DEFAULT_TENANT, ids) is await cache.load(DEFAULT_TENANT, ids)
    assert await cache.load(DEFAULT_TENANT + 1, ids) is None


async def test_worker_builds_only_messages_that_fit_in_memory(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "LARGE_BYTES", 1_000)
    monkeypatch.setattr(builder, "MAX_BUILT_BYTES", 40_000)
    campaign_id = await started(desk, 40, PDF)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert await desk.status(campaign_id) == "SENT"
    size = len(provider.messages[0].content)
    assert provider.most_under_way <= 40_000 // size + 1


# Drafts.


@pytest.mark.promise("campaign-attachments")
async def test_attachments_are_fixed_by_the_start(desk: CampaignHarness) -> None:
    campaign_id = await started(desk, 1, PDF)
    [attached] = (await desk.campaign(campaign_id)).attachments
    with pytest.raises(NotPossibleNow):
        await desk.campaigns.attach(OPERATOR, campaign_id, [LOGO])
    with pytest.raises(NotPossibleNow):
        await desk.campaigns.detach(OPERATOR, campaign_id, attached.attachment_id)
    assert await desk.audit_actions(campaign_id) == ["create", "attach", "start"]


async def test_duplicate_has_its_own_attachments(desk: CampaignHarness) -> None:
    campaign_id = await started(desk, 1, PDF, LOGO)
    copy = await desk.campaigns.duplicate(OPERATOR, campaign_id)
    original = await desk.campaign(campaign_id)
    assert [each.filename for each in copy.attachments] == [PDF.filename, LOGO.filename]
    assert not {each.attachment_id for each in copy.attachments} & {each.attachment_id for each in original.attachments}
    for each in copy.attachments:
        await desk.campaigns.detach(OPERATOR, copy.campaign_id, each.attachment_id)
    found, content = await read_content(desk.database, original.key, original.attachments[0].attachment_id)
    assert (found.filename, content) == (PDF.filename, PDF.content)


async def test_removed_attachment_leaves_nothing_behind(desk: CampaignHarness) -> None:
    campaign = await desk.campaigns.attach(OPERATOR, await desk.create(), [PDF])
    [attached] = campaign.attachments
    await desk.campaigns.test_send(OPERATOR, campaign.campaign_id, ["desk@example.com"])
    changed = await desk.campaigns.detach(OPERATOR, campaign.campaign_id, attached.attachment_id)
    assert changed.attachments == ()
    assert await stored_contents(desk) == 0
    provider = ScriptedProvider()
    await desk.bench.drain(provider)  # The waiting test email must not be sent without its file.
    assert provider.messages == []
    assert await desk.bench.statuses() == {"FAILED": 1}
    for wrong in (attached.attachment_id, uuid7(0), "1"):
        with pytest.raises(NotFound):
            await desk.campaigns.detach(OPERATOR, campaign.campaign_id, wrong)


async def test_attachments_have_limits_of_number_and_size(desk: CampaignHarness) -> None:
    campaign_id = await desk.create()
    half = EmailAttachment("half.bin", "application/octet-stream", b"x" * (MAX_ATTACHMENTS_BYTES // 2))
    await desk.campaigns.attach(OPERATOR, campaign_id, [half])
    with pytest.raises(InvalidInput, match="larger than 10 MB together"):
        await desk.campaigns.attach(OPERATOR, campaign_id, [half, EmailAttachment("a.txt", "text/plain", b"x")])
    small = [EmailAttachment(f"{number}.txt", "text/plain", b"x") for number in range(MAX_ATTACHMENTS)]
    with pytest.raises(InvalidInput, match="at most 20"):
        await desk.campaigns.attach(OPERATOR, campaign_id, small)
    with pytest.raises(InvalidInput, match="empty"):
        await desk.campaigns.attach(OPERATOR, campaign_id, [EmailAttachment("a.txt", "text/plain", b"")])
    assert [each.filename for each in (await desk.campaign(campaign_id)).attachments] == ["half.bin"]


async def test_uploaded_file_name_has_no_path() -> None:
    assert parse_file("C:\\fake\\offer.pdf", None, b"x").content_type == "application/pdf"
    assert parse_file("/tmp/a/offer.pdf", "text/plain; charset=x", b"x").filename == "offer.pdf"


# Pre-send checks.


@pytest.mark.parametrize(
    ("attached", "recipients", "codes"),
    [
        (EmailAttachment("price.pdf", "application/pdf", b"x" * 2_000), 2, []),
        (EmailAttachment("film.mp4", "video/mp4", b"x" * 900_000), 2, ["LARGE_ATTACHMENTS"]),
        (EmailAttachment("Setup.EXE", "application/octet-stream", b"x"), 2, ["BLOCKED_ATTACHMENT"]),
    ],
)
async def test_presend_check_warns_about_attachments(
    desk: CampaignHarness, attached: EmailAttachment, recipients: int, codes: list[str]
) -> None:
    await join(desk.database, [address_of(number) for number in range(recipients)])
    campaign = await desk.campaigns.attach(OPERATOR, await desk.create(), [attached])
    found = await check_campaign(
        desk.database,
        desk.bench.engine.templates,
        campaign.definition,
        tenant_id=DEFAULT_TENANT,
        now=desk.clock.now(),
        attachments=campaign.attachments,
    )
    assert [issue.code for issue in found.warnings if issue.where == "attachments"] == codes
