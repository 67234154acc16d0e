"""Tenant isolation: on every route, including future ones, a key gives access to its own tenant only."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.ops.provider_kinds import KINDS
from mailwright.outbox import message_records, tenants
from mailwright.sources.articles.runs import RunRequest
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.send_approvals import PlannedSend, SendKind, require_approval
from mailwright.storage.database import Database
from tests.api import Api, a_request, an_api
from tests.builders import a_subscriber
from tests.contract.outbox.test_operations import a_failed_message, a_message_in_doubt
from tests.pictures import a_png

OURS = "only-ours@example.com"

A_SEQUENCE = {"name": "Theirs", "trigger": {"manual": True}, "steps": [{"id": "end", "end": True}]}

# A valid body for each schema. A route with a new body must be added here.
BODIES: dict[str, Any] = {
    "SendRequest": a_request(),
    "BatchRequest": {"messages": [a_request()]},
    "CampaignResolveRequest": {"as": "close"},
    "ResolveRequest": {"as": "close"},
    "SuppressionRequest": {"email": "theirs@example.com"},
    "ListRequest": {"listKey": "theirs"},
    "UnsubscribeRequest": {"email": "theirs@example.com"},
    "TemplateRequest": {"subject": "Hello", "html": "<p>Hello</p>"},
    "TemplatePreviewRequest": {},
    "CampaignRequest": {"name": "Theirs", "content": {"subject": "Theirs", "body": "<p>Theirs</p>"}},
    "CampaignLimits": {},
    "Attachment": {"filename": "theirs.txt", "content": "eA=="},
    "CampaignTestRequest": {"addresses": ["theirs@example.com"]},
    "CampaignDuplicateRequest": {},
    "CampaignExtendRequest": {},
    "CampaignWinnerRequest": {"version": "A"},
    "CampaignSegmentRequest": {"of": "opened"},
    "CampaignResendRequest": {"subject": "Theirs again"},
    "CampaignScheduleRequest": {"scheduledAt": None},
    "CampaignMoveRequest": {"position": 1},
    "CampaignRepeatRequest": {"time": "09:00"},
    "ApprovalRequest": {"digest": "theirs"},
    "RejectionRequest": {"digest": "theirs", "comment": "Theirs"},
    "ApprovalRuleRequest": {"over": 10},
    "BrandUpdateRequest": {"name": "Theirs"},
    "ContactRequest": {"name": "Theirs"},
    "SnoozeRequest": {"until": None},
    "TrackingConsentRequest": {"isGiven": False},
    "LegalBasisRequest": {"basis": "none"},
    "NewWebhookRequest": {"url": "https://theirs.example/hook"},
    "EventsRequest": {"event": "theirs", "email": "theirs@example.com"},
    "SubscribeRequest": {"email": "theirs@example.com"},
    "SegmentCountRequest": {"filter": {"tag": "vip"}},
    "SegmentRequest": {"segmentKey": "theirs", "filter": {"tag": "vip"}},
    "SegmentUpdateRequest": {"name": "Theirs"},
    "ListUpdateRequest": {"name": "Theirs"},
    "SequenceRequest": {"document": A_SEQUENCE},
    "SequenceUpdateRequest": {"document": A_SEQUENCE, "revision": 1},
    "SequencePublishRequest": {},
    "SequenceResumeRequest": {"overdue": "send"},
    "SequenceEnrolRequest": {"emails": ["theirs@example.com"]},
    "SequenceRetryRequest": {},
    "SequenceRehearseRequest": {},
    "SequenceRemoveRequest": {"email": "theirs@example.com"},
    "RequeueNotificationsRequest": {"status": "failed"},
    "NotificationEventRequest": {
        "termId": "1",
        "campusCode": "NB",
        "indexNumber": "1",
        "statusBefore": "Wait",
        "statusAfter": "Open",
    },
    "ArchiveRequest": {"isPublic": True},
    "WebhookRequest": {"url": "https://theirs.example/hook"},
    "ArticleSendRequest": {
        "campaign_tag": "theirs",
        "article_key": "theirs",
        "send_batch_id": "7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f",
    },
    "SliceRequest": {"article_key": "theirs", "body_md": "Theirs"},
    "ArticlePreviewRequest": {},
    "ArticleCoverageRequest": {},
    "RetentionRuleRequest": {"days": 90},
    "Brand": {"name": "Theirs"},
    "ProviderRequest": {"name": "theirs", "kind": "mailbox"},
    "ProviderChangeRequest": {"settings": {}},
    "ProviderRouteRequest": {"tenant": "theirs", "provider": "theirs"},
    "ReportSourceRequest": {"name": "theirs"},
    "ReportsRequest": {"reports": [{"type": "delivered", "messageId": "theirs"}]},
    "FormRequest": {"name": "Theirs", "listKey": "theirs"},
    "DomainRequest": {"name": "theirs.example"},
    "DomainRotationRequest": {},
    "ImageChangeRequest": {"alt": "Theirs"},
    "MailoutRequest": {"notionPageId": "0123456789abcdef0123456789abcdef"},
    "ApiKeyRequest": {"name": "theirs"},
    "ApiKeyUpdateRequest": {"owner": "theirs"},
    "TenantRequest": {"name": "theirs"},
    "TenantUpdateRequest": {"weight": 2},
    "UserRequest": {"login": "theirs", "password": "correct horse battery"},
    "UserUpdateRequest": {"role": "viewer"},
    "InvitationRequest": {"email": "theirs@example.com"},
    "SettingsUpdateRequest": {"settings": {"MAILWRIGHT_RATE_PER_HOUR": "10"}},
}

# Two tenants can use the same name for different things.
MAKES_ONES_OWN = [
    ("PUT", "/v1/templates/{templateId}"),
    ("PUT", "/v1/contacts/{email}"),
    ("PUT", "/v1/retention/{kind}"),
    ("GET", "/v1/retention/{kind}/preview"),
]


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


def operations(api: Api) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in api.app.openapi()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def body_of(operation: dict[str, Any]) -> Any:
    if "application/json" not in operation.get("requestBody", {}).get("content", {}):
        return None
    return BODIES[operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]


def is_open_to_all(path: str) -> bool:
    """Inbound webhooks are authenticated by signature: see test_inbound.py."""
    webhooks = {f"/{kind.name}-events" for kind in KINDS.values() if kind.webhook is not None}
    signed = {"/provider-events/{providerName}", "/v1/reports/{sourceName}"}
    return path in webhooks | signed | {"/healthz", "/readyz", "/metrics"}


def is_reserved(path: str, operation: dict[str, Any]) -> bool:
    """No API key of a tenant opens the routes of the installation and those that a signature protects."""
    return is_open_to_all(path) or operation.get("security") == [{"administrator": []}] or is_platform(operation)


def is_platform(operation: dict[str, Any]) -> bool:
    return operation.get("x-scope", "").startswith("platform")


async def test_every_route_requires_a_key(api: Api) -> None:
    asked = 0
    for method, path, operation in operations(api):
        if not is_open_to_all(path):
            answer = await api.anonymous.request(method, path, json=body_of(operation))
            assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED"), (method, path)
            asked += 1
    assert asked >= 11


@pytest.mark.promise("tenant-isolation")
@pytest.mark.both_engines
async def test_no_route_exposes_another_tenant(api: Api, clock: ManualClock) -> None:
    database = api.engine.database
    waiting = await api.send(to=OURS, metadata={"secret": OURS})
    ours = {
        "outboxId": [await a_failed_message(database, clock), (await a_message_in_doubt(database, clock))[0], waiting],
        "email": [OURS],
        "listKey": ["only-ours"],
        "templateId": ["only-ours"],
        "segmentKey": ["only-ours"],
        "kind": ["bodies"],
        "imageName": ["only-ours.png"],
        "notificationId": ["1"],  # Tested with a queue in test_notifications.py.
    }
    await api.client.put("/v1/retention/bodies", json={"days": 90})
    await api.client.put("/v1/brand", json={"name": OURS})
    await api.client.post("/v1/domains", json={"name": "only-ours.example", "sender": f"{OURS}.only-ours.example"})
    ours["domainName"] = ["only-ours.example"]
    await api.client.post("/v1/images?name=only-ours.png", params={"alt": OURS}, content=a_png())
    await api.client.post("/v1/suppressions", json={"email": OURS})
    await api.client.post("/v1/events", json={"event": "ours", "email": OURS, "properties": {"secret": OURS}})
    await api.client.post("/v1/lists", json={"listKey": "only-ours"})
    form = {"name": OURS, "listKey": "only-ours", "title": OURS}
    ours["formId"] = [(await api.client.post("/v1/forms", json=form)).json()["formId"]]
    await api.client.put("/v1/templates/only-ours", json={"subject": OURS, "html": f"<p>{OURS}</p>"})
    await api.client.post("/v1/segments", json={"segmentKey": "only-ours", "filter": {"tag": OURS}})
    campaign = {"name": OURS, "content": {"subject": OURS, "body": f"<p>{OURS}</p>"}, "lists": ["only-ours"]}
    ours["campaignId"] = [(await api.client.post("/v1/campaigns", json=campaign)).json()["campaignId"]]
    sequence = await api.client.post("/v1/sequences", json={"document": {**A_SEQUENCE, "name": OURS}})
    ours["sequenceId"] = [sequence.json()["sequenceId"]]
    send = PlannedSend(1, SendKind.SEQUENCE, OURS, OURS, 5, {"subject": OURS})
    await tenants.change(database, tenants.DEFAULT, approval_over=2)
    with pytest.raises(AwaitsApproval):
        await require_approval(database, clock, send, actor=OURS)
    await tenants.change(database, tenants.DEFAULT, approval_over=None)
    [waiting_send] = await api.engine.send_approvals.list_waiting(1)
    ours["approvalId"] = [str(waiting_send.id)]
    people = {"content": f"email\n{OURS}\n", "headers": {"Content-Type": "text/csv"}}
    ours["importId"] = [(await api.client.post("/v1/contacts/imports", **people)).json()["importId"]]
    moved = await api.client.post("/v1/contacts/moves?vendor=mailwright&fileName=ours.csv", content=people["content"])
    ours["moveId"] = [moved.json()["moveId"]]
    webhook = (await api.client.post("/v1/webhooks", json={"url": "https://ours.example/hook"})).json()
    ours["webhookId"] = [webhook["webhookId"]]
    told = await api.client.post(f"/v1/webhooks/{webhook['webhookId']}/test")
    ours["deliveryId"] = [told.json()["deliveryId"]]
    ours["mailoutId"] = [(await api.engine.mailout_runs.accept(1, "a" * 32, actor=OURS)).mailout_id]
    written = {"article_key": "our-article", "body_md": OURS, "publish_status": "published"}
    ours["articleKey"] = ["our-article"]
    ours["sliceId"] = [(await api.client.put("/v1/slices", json=written)).json()["slice_id"]]
    await a_subscriber(database, "subscriber@example.com")
    order = RunRequest("ours", "our-article", "7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f", {})
    ours["runId"] = [(await api.engine.article_runs.start("test", 1, order))[0].run_id]
    before = await everything(api)
    await api.stranger.post("/v1/lists", json=BODIES["ListRequest"])  # Other bodies name it.
    for method, path, operation in sorted(operations(api), key=lambda each: each[:2] in MAKES_ONES_OWN):
        name = path.partition("{")[2].partition("}")[0]
        if name and is_reserved(path, operation):
            address = path.replace("{" + name + "}", "ours")
            answer = await api.stranger.request(method, address, json=body_of(operation))
            assert answer.status_code in (401, 403, 404), (method, path, answer.text)
            continue
        for value in ours[name] if name else [""]:
            address = path.replace("{" + name + "}", quote(value, safe=""))
            answer = await api.stranger.request(method, address, json=body_of(operation))
            if name and (method, path) not in MAKES_ONES_OWN:
                assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), (method, path, answer.text)
            if (method, path) not in MAKES_ONES_OWN:
                # An answer may repeat the id that was asked for.
                told = answer.text.replace(value, "") if value else answer.text
                assert not any(each in told for each in [OURS, *ours["outboxId"]]), (method, path)
    assert await everything(api) == before


@pytest.mark.promise("tenant-isolation")
async def test_nul_in_a_name_is_not_found(api: Api) -> None:
    for method, path, operation in operations(api):
        if "{" not in path or (method, path) in MAKES_ONES_OWN or is_reserved(path, operation):
            continue
        address = f"{path.partition('{')[0]}a%00b{path.partition('}')[2]}"
        answer = await api.client.request(method, address, json=body_of(operation))
        assert answer.status_code == 404, (method, path, answer.text)
    assert (await api.client.get("/v1/contacts", params={"cursor": "\0"})).status_code == 422


@pytest.mark.promise("tenant-isolation")
async def test_foreign_cursor_returns_own_messages(api: Api) -> None:
    for _ in range(3):
        await api.send(to=OURS)
        await api.stranger.post("/v1/email/send", json=a_request(to="theirs@example.com"))
    cursor = (await api.client.get("/v1/email", params={"limit": 2})).json()["nextCursor"]
    page = (await api.stranger.get("/v1/email", params={"cursor": cursor})).json()
    assert {message["to"] for message in page["messages"]} == {"theirs@example.com"}


async def everything(api: Api) -> Any:
    found = await message_records.search(api.engine.database, 1, message_records.MessageSearch(), limit=100)
    suppressed = (await api.client.get("/v1/suppressions")).json()
    dead_letter_list = await message_records.dead_letters(api.engine.database, 1, limit=100)
    stories = [await message_records.find(api.engine.database, message.outbox_id, tenant_id=1) for message in found]
    images, brand = [(await api.client.get(f"/v1/{name}")).json() for name in ("images", "brand")]
    return stories, suppressed, dead_letter_list, images, brand
