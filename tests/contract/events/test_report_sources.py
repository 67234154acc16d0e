"""Signed reports of any mail server, and the webhooks of named providers: each counts for its own messages only."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from mailwright.app.named_providers import NamedProviders, ProviderService
from mailwright.app.named_webhooks import make_named_webhooks
from mailwright.domain.clock import MINUTE, ManualClock, SystemClock
from mailwright.events.outbound.signature import signature_header
from mailwright.events.report_sources import ReportSources
from mailwright.events.reports import Reports
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.provider_configurations import load_providers
from mailwright.storage.database import Database
from mailwright.storage.tables import report_sources, suppressions
from mailwright.web.app import create_app
from tests.api import Api, an_api, an_engine, client_of, on_a_socket
from tests.builders import a_tenant, record_of, settings_for, steps
from tests.contract.events.test_inbound import ADA, a_sent_mail
from tests.standins.vendors import SHARED_SECRET, basic_request

PASSWORD = "a password of the administrator"
ADMINISTRATOR = {"Authorization": f"Bearer {PASSWORD}"}


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock, admin_password=PASSWORD) as api:
        yield api


async def a_source(api: Api, **given: Any) -> str:
    answer = await api.anonymous.post("/v1/report-sources", json={"name": "postfix-1", **given}, headers=ADMINISTRATOR)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["secret"])


async def post(api: Api, secret: str, *reports: Any, at: int | None = None, name: str = "postfix-1") -> httpx.Response:
    body = json.dumps({"reports": reports}).encode()
    seconds = api.engine.clock.now() // 1000 if at is None else at
    headers = {"Mailwright-Signature": signature_header([secret], seconds, body)}
    return await api.anonymous.post(f"/v1/reports/{name}", content=body, headers=headers)


async def suppressed(api: Api) -> list[str]:
    async with api.engine.database.read() as tx:
        return [row.email for row in await tx.execute(select(suppressions.c.email))]


@pytest.mark.promise("signed-reports")
async def test_signed_reports_count_once(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(api, clock, "smtp")
    secret = await a_source(api)
    delivered = {"type": "delivered", "messageId": outbox_id, "at": "2020-01-01T00:00:00Z"}
    bounced = {"type": "bounce", "bounce": "hard", "messageId": f"<{outbox_id}@example.com>", "code": "5.1.1"}
    unknown = {"type": "open", "messageId": "01890a5d-ac96-774b-bcce-b302099a8057"}
    assert (await post(api, secret, delivered, bounced, unknown)).json() == {"new": 2, "repeated": 0, "unknown": 1}
    another_process = create_app(an_engine(api.engine.database, clock))
    async with client_of(another_process) as other:
        repeated = await post(replace(api, anonymous=other), secret, delivered, bounced)
    assert repeated.json() == {"new": 0, "repeated": 2, "unknown": 0}
    assert {"delivered", "bounce"} <= {*steps(await record_of(api.engine.database, outbox_id))}
    assert await suppressed(api) == [ADA]
    [shown] = (await api.anonymous.get("/v1/report-sources", headers=ADMINISTRATOR)).json()["reportSources"]
    assert shown["lastUsedAt"]
    assert "secret" not in shown


@pytest.mark.promise("signed-reports")
async def test_forged_or_stale_reports_change_nothing(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(api, clock, "smtp")
    secret = await a_source(api)
    report = {"type": "bounce", "bounce": "hard", "messageId": outbox_id}
    now = clock.now() // 1000
    refused = [
        await post(api, "rpsec_wrong", report),
        await post(api, secret, report, name="unknown"),
        await post(api, secret, report, at=now - 5 * 60 - 1),
        await post(api, secret, report, at=now + 5 * 60 + 1),
        await api.anonymous.post("/v1/reports/postfix-1", json={"reports": [report]}),
        await api.anonymous.post("/v1/reports/postfix-1", content=b"{}", headers={"Mailwright-Signature": "t=1,v1=zz"}),
    ]
    assert [answer.status_code for answer in refused] == [403] * 6
    assert refused[0].json()["code"] == refused[1].json()["code"] == "EVENT_FORGED"
    assert await suppressed(api) == []


@pytest.mark.promise("signed-reports")
async def test_reports_about_other_tenants_are_unknown(api: Api, clock: ManualClock, database: Database) -> None:
    outbox_id = await a_sent_mail(api, clock, "smtp")
    await a_tenant(database, "acme")
    secret = await a_source(api, tenant="acme")
    answer = await post(api, secret, {"type": "bounce", "bounce": "hard", "messageId": outbox_id})
    assert answer.json() == {"new": 0, "repeated": 0, "unknown": 1}
    assert await suppressed(api) == []


@pytest.mark.parametrize("has_copies", [True, False])
async def test_foreign_address_is_unknown_if_the_message_has_copies(
    api: Api, clock: ManualClock, *, has_copies: bool
) -> None:
    """With one recipient, the id of the message decides, whatever address the report names."""
    payload = {"to": ADA, "subject": "Hello", "html": "<p>Hello</p>", "cc": ["bob@example.com"]}
    outbox_id = await a_sent_mail(api, clock, "smtp", **({"payload": payload} if has_copies else {}))
    secret = await a_source(api)
    for kind in ({"type": "bounce", "bounce": "hard"}, {"type": "delivered"}):
        answer = await post(api, secret, {**kind, "messageId": outbox_id, "recipient": "eve@example.com"})
        assert answer.json()["unknown"] == int(has_copies)
    found = {"bounce", "delivered"} & {*steps(await record_of(api.engine.database, outbox_id))}
    assert found == (set() if has_copies else {"bounce", "delivered"})
    assert bool(await suppressed(api)) is not has_copies


async def test_unreadable_secret_of_source_is_temporary(api: Api, database: Database) -> None:
    secret = await a_source(api)
    async with database.write() as tx:
        await tx.execute(report_sources.update().values(secret="fernet:broken"))
    answer = await post(api, secret, {"type": "open", "messageId": "01890a5d-ac96-774b-bcce-b302099a8057"})
    assert (answer.status_code, answer.json()["code"]) == (503, "SECRET_KEY_INVALID")
    assert "Repeat the request later" in answer.text
    assert "key file" not in answer.text


async def test_reports_by_provider_id_need_a_provider(api: Api, clock: ManualClock) -> None:
    await api.engine.providers.create("own-mta", "mailbox", {}, actor="ada")
    outbox_id = await a_sent_mail(api, clock, "own-mta", message_id="4XyZ")
    secret = await a_source(api)
    report = {"type": "deferred", "providerMessageId": "4XyZ", "reason": "450 try later"}
    refused = await post(api, secret, report)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "reports[0].providerMessageId")
    given = {"name": "own-mta-log", "provider": "own-mta"}
    secret = (await api.anonymous.post("/v1/report-sources", json=given, headers=ADMINISTRATOR)).json()["secret"]
    assert (await post(api, secret, report, name="own-mta-log")).json()["new"] == 1
    assert "deferred" in steps(await record_of(api.engine.database, outbox_id))
    other = await a_sent_mail(api, clock, "smtp", email="b@example.com")
    elsewhere = await post(api, secret, {"type": "delivered", "messageId": other}, name="own-mta-log")
    assert elsewhere.json()["unknown"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"type": "pigeon"},
        {"messageId": None},
        {"messageId": "not-an-id"},
        {"bounce": None},
        {"type": "delivered"},
        {"at": "yesterday"},
        {"unknownField": 1},
    ],
    ids=str,
)
async def test_invalid_report_is_refused_with_its_place(api: Api, change: dict[str, Any]) -> None:
    secret = await a_source(api)
    good = {"type": "bounce", "bounce": "soft", "messageId": "01890a5d-ac96-774b-bcce-b302099a8057"}
    answer = await post(api, secret, good, {**good, **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"].startswith("reports[1]")
    assert (await post(api, secret, *[good] * 1_001)).status_code == 422


async def test_source_secret_is_encrypted_and_deletable(api: Api, database: Database, clock: ManualClock) -> None:
    secret = await a_source(api)
    async with database.read() as tx:
        assert secret not in str(await tx.execute(report_sources.select()))
    assert secret not in str(await list_entries(database, tenant_id=None, limit=10))
    for given in ({"name": "postfix-1"}, {"name": "X"}, {"name": "b1", "provider": "smtp"}):
        answer = await api.anonymous.post("/v1/report-sources", json=given, headers=ADMINISTRATOR)
        assert answer.status_code in (409, 422), given
    assert len(await ReportSources(database, clock).list_all()) == 1
    path = "/v1/report-sources/postfix-1"
    assert (await api.anonymous.delete(path, headers=ADMINISTRATOR)).status_code == 204
    clock.advance(MINUTE)
    assert (await post(api, secret, {"type": "open", "messageId": "x"})).status_code == 403


@pytest.mark.promise("provider-per-tenant")
async def test_named_provider_reports_its_own_messages_only(database: Database, clock: ManualClock) -> None:
    given = {"POSTMARK_SERVER_TOKEN": "token", "POSTMARK_WEBHOOK_SECRET": SHARED_SECRET}
    settings = settings_for("sqlite:///unused.db")
    await ProviderService(settings, database, clock).create("acme-pm", "postmark", given, actor="ada")
    named = NamedProviders.of(await load_providers(database), settings)
    webhooks = make_named_webhooks(named, Reports(database, clock), clock)
    async with an_api(database, clock, named_webhooks=webhooks) as api:
        theirs = await a_sent_mail(api, clock, "acme-pm")
        others = await a_sent_mail(api, clock, "postmark", email="b@example.com")
        for outbox_id, email, expected in ((theirs, ADA, "new"), (others, "b@example.com", "unknown")):
            event = {"RecordType": "Bounce", "ID": 7, "Type": "HardBounce", "TypeCode": 1, "Email": email}
            event |= {"BouncedAt": "2026-11-15T08:00:00Z", "Metadata": {"mailwright_message": outbox_id}}
            headers, body = basic_request(event)
            answer = await api.anonymous.post("/provider-events/acme-pm", content=body, headers=headers)
            assert answer.json()[expected] == 1, answer.text
            headers = {**headers, "Authorization": "Bearer wrong-wrong-wrong"}
            forged = await api.anonymous.post("/provider-events/acme-pm", content=body, headers=headers)
            assert forged.status_code == 403
        assert (await api.anonymous.post("/provider-events/nobody", content=b"{}")).status_code == 404
        assert await suppressed(api) == [ADA]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_documented_report_command_works(database: Database) -> None:
    page = (Path(__file__).parents[3] / "docs/providers.md").read_text(encoding="utf-8")
    [script] = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "openssl" in block]
    clock = ManualClock(SystemClock().now())
    async with an_api(database, clock, admin_password=PASSWORD) as api, on_a_socket(api.app) as url:
        outbox_id = await a_sent_mail(api, clock, "smtp")
        given = {**os.environ, "URL": url, "ID": outbox_id, "SECRET": await a_source(api)}
        process = await asyncio.create_subprocess_exec("bash", "-ec", script, env=given, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        assert json.loads(output) == {"new": 1, "repeated": 0, "unknown": 0}
        assert await suppressed(api) == [ADA]
