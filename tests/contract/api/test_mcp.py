"""The MCP server, used by the client of the official SDK over a real socket and over standard streams."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from sqlalchemy import text

from mailwright.access.roles import ALL_SCOPES, Role, Scope
from mailwright.domain.clock import ManualClock
from mailwright.outbox import tenants
from mailwright.web.mcp.tools import TOOLS
from tests.api import Api, an_api, on_a_socket
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import BODY, NEWS, a_list, join
from tests.pages import PASSWORD
from tests.sequences import WELCOME, a_document, a_wait, an_email

CAMPAIGN = {"name": "January", "content": {"subject": "News", "body": BODY}, "lists": [NEWS]}
EMAIL = {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hello</p>"}


@dataclass(frozen=True)
class Agents:
    api: Api
    url: str

    @asynccontextmanager
    async def agent(self, *scopes: Scope, mode: str = "auto", owner: str | None = None) -> AsyncIterator[Client]:
        key = await self.api.engine.keys.create(DEFAULT_TENANT, "drafter", frozenset(scopes), owner=owner)
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, verify=False) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    async def actions(self) -> list[tuple[str, str]]:
        entries = (await self.api.client.get("/v1/audit-log")).json()["entries"]
        return [(entry["actor"], entry["action"]) for entry in entries]


@pytest.fixture
async def agents(bench: Bench, clock: ManualClock) -> AsyncIterator[Agents]:
    await a_list(bench.database)
    await join(bench.database, ["ada@example.com"])
    async with an_api(bench.database, clock) as api, on_a_socket(api.app) as url:
        yield Agents(api, url)


def error_of(result: CallToolResult) -> str:
    assert result.is_error
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.promise("api-key-scopes")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_draft_is_created_checked_and_not_sent(agents: Agents, mode: str) -> None:
    async with agents.agent(Scope.PROPOSE, mode=mode) as client:
        draft = await call(client, "create_campaign_draft", **CAMPAIGN)
        assert draft["status"] == "DRAFT"
        assert (await call(client, "check_campaign", campaignId=draft["campaignId"]))["planned"] == 1
        changed = await call(
            client, "edit_campaign_draft", campaignId=draft["campaignId"], **{**CAMPAIGN, "name": "Later"}
        )
        assert changed["name"] == "Later"
        result = await client.call_tool("start_campaign", {"campaignId": draft["campaignId"]})
        assert "There is no tool 'start_campaign'" in error_of(result)
    assert (await agents.actions())[0] == ("api:drafter", "campaign.edit")


@pytest.mark.promise("api-key-scopes")
async def test_sequence_is_drafted_rehearsed_and_not_published(agents: Agents) -> None:
    document = a_document(an_email(), a_wait(), trigger={"joinsList": NEWS})
    async with agents.agent(Scope.PROPOSE) as client:
        await call(client, "create_template", templateId=WELCOME, subject="Welcome", html="<p>Hello</p>")
        draft = await call(client, "create_sequence_draft", document=document)
        named = {"sequenceId": draft["sequenceId"]}
        rehearsal = await call(client, "rehearse_sequence", **named, list=NEWS)
        assert (rehearsal["people"], rehearsal["emails"]) == (1, 1)
        assert (await call(client, "show_sequence", **named))["status"] == "draft"
        [run] = (await call(client, "explain_sequences", email="ada@example.com", **named))["runs"]
        assert "nobody enters before it is published" in run["sentence"]
        assert len((await call(client, "list_ready_sequences"))["sequences"]) == 6
        refused = await client.call_tool("create_sequence_draft", {"ready": "birthday"})
        assert "manage" in error_of(refused)
        assert not any("publish" in tool.name for tool in (await client.list_tools()).tools)
    [only] = await agents.api.engine.sequences.list_all(DEFAULT_TENANT)
    assert (only.sequence_id, only.status) == (draft["sequenceId"], "draft")


@pytest.mark.promise("api-key-scopes")
async def test_proposal_edits_only_its_own_unpublished_sequence(agents: Agents) -> None:
    document = a_document(an_email(), name="First")
    service = agents.api.engine.sequences
    foreign = (await agents.api.client.post("/v1/sequences", json={"document": document})).json()["sequenceId"]
    async with agents.agent(Scope.PROPOSE) as client:
        await call(client, "create_template", templateId=WELCOME, subject="Welcome", html="<p>Hello</p>")
        own = (await call(client, "create_sequence_draft", document=document))["sequenceId"]
        better = {"sequenceId": own, "document": {**document, "name": "Better"}, "revision": 1}
        assert (await call(client, "edit_sequence_draft", **better))["name"] == "Better"
        refused = await client.call_tool("edit_sequence_draft", {**better, "sequenceId": foreign})
        assert "requires the scope `manage`" in error_of(refused)
        await service.publish(DEFAULT_TENANT, own, actor="api:drafter")
        refused = await client.call_tool("edit_sequence_draft", {**better, "revision": 2})
        assert "was published" in error_of(refused)
    assert {each.name for each in await service.list_all(DEFAULT_TENANT)} == {"First", "Better"}


@pytest.mark.promise("second-person")
async def test_agent_requests_an_approval_and_never_gives_one(agents: Agents) -> None:
    await tenants.change(agents.api.engine.database, tenants.DEFAULT, approval_over=0)
    await agents.api.engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    async with agents.agent(Scope.PROPOSE, owner="grace") as client:
        draft = await call(client, "create_campaign_draft", **CAMPAIGN)
        named = {"campaignId": draft["campaignId"]}
        assert (await call(client, "show_campaign_plan", **named))["isApprovalRequired"] is True
        requested = await call(client, "request_approval", **named)
        assert requested["approval"]["status"] == "waiting"
        assert not any("approve" in tool.name for tool in (await client.list_tools()).tools)
    async with agents.agent(*ALL_SCOPES) as client:
        assert "waits for the approval" in error_of(await client.call_tool("start_campaign", named))


async def test_result_of_a_draft_names_the_page_to_start_it(agents: Agents) -> None:
    async with agents.agent(Scope.PROPOSE) as client:
        result = await client.call_tool("create_campaign_draft", CAMPAIGN)
    last = result.content[-1]
    assert isinstance(last, TextContent)
    assert last.text.endswith(f"http://mail.example/campaigns/{result.structured_content['campaignId']}")


@pytest.mark.parametrize(
    ("scope", "first", "missing"),
    [
        (Scope.READ, "search_messages", "create_campaign_draft"),
        (Scope.PROPOSE, "search_messages", "send_email"),
        (Scope.SEND, "send_email", "search_messages"),
        (Scope.MANAGE, "start_campaign", "send_email"),
    ],
)
async def test_scopes_decide_which_tools_exist(agents: Agents, scope: Scope, first: str, missing: str) -> None:
    async with agents.agent(scope) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert first in names
    assert missing not in names


async def test_every_tool_describes_its_arguments(agents: Agents) -> None:
    async with agents.agent(*ALL_SCOPES) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    assert all(tool.input_schema["type"] == "object" for tool in tools)
    [draft] = [tool for tool in tools if tool.name == "create_campaign_draft"]
    assert {"name", "content", "lists"} <= draft.input_schema["properties"].keys()
    assert "#/components" not in str(draft.input_schema)


async def test_tools_without_arguments_answer_every_agent(agents: Agents) -> None:
    async with agents.agent(Scope.READ) as client:
        free = [tool for tool in (await client.list_tools()).tools if not tool.input_schema["required"]]
        refused = {tool.name for tool in free if (await client.call_tool(tool.name, {})).is_error}
    assert (len(free) > 6, refused) == (True, set())


async def test_message_is_sent_found_and_explained(agents: Agents) -> None:
    async with agents.agent(Scope.SEND, Scope.READ) as client:
        sent = await call(client, "send_email", **EMAIL)
        found = await call(client, "search_messages", to="ada@example.com", limit=1)
        assert [message["outboxId"] for message in found["messages"]] == [sent["outboxId"]]
        assert (await call(client, "explain_message", outboxId=sent["outboxId"]))["state"] == "no_worker"
    assert (await agents.actions())[0] == ("api:drafter", "message.send")


@pytest.mark.promise("api-key-scopes")
async def test_existing_template_is_not_changed_by_a_proposal(agents: Agents) -> None:
    template = {"templateId": "welcome", "subject": "Welcome", "html": "<p>Hello</p>"}
    async with agents.agent(Scope.PROPOSE) as client:
        assert (await call(client, "create_template", **template))["version"] == 1
        refused = await client.call_tool("create_template", template)
        assert "requires the scope `manage`" in error_of(refused)
        assert (await agents.api.client.delete("/v1/templates/welcome")).status_code in (200, 204)
        refused = await client.call_tool("create_template", template)
        assert "was deleted and can be restored" in error_of(refused)
    async with agents.agent(Scope.MANAGE) as client:
        assert (await call(client, "create_template", **template))["version"] == 2


async def test_repeated_idempotency_key_sends_once(agents: Agents) -> None:
    async with agents.agent(Scope.SEND, Scope.READ) as client:
        first, again = [await call(client, "send_email", **EMAIL, idempotencyKey="order-1") for _ in range(2)]
        assert first["outboxId"] == again["outboxId"]
        other = await call(client, "send_email", **EMAIL, idempotencyKey="order-2")
        assert other["outboxId"] != first["outboxId"]
        refused = await client.call_tool("send_email", {**EMAIL, "idempotencyKey": "é"})
        assert "printable ASCII" in error_of(refused)
        assert len((await call(client, "search_messages", to="ada@example.com"))["messages"]) == 2


async def test_accepted_email_is_no_error_if_recording_fails(agents: Agents, bench: Bench) -> None:
    async with agents.agent(Scope.SEND) as client:
        await rename_table(bench, "audit_log", "unreachable")
        try:
            assert (await call(client, "send_email", **EMAIL))["outboxId"]
        finally:
            await rename_table(bench, "unreachable", "audit_log")


async def rename_table(bench: Bench, before: str, after: str) -> None:
    async with bench.database.write() as tx:
        await tx.execute(text(f"ALTER TABLE {before} RENAME TO {after}"))


@pytest.mark.promise("api-key-scopes")
@pytest.mark.both_engines
async def test_proposal_replaces_only_its_own_draft(agents: Agents) -> None:
    foreign = (await agents.api.client.post("/v1/campaigns", json=CAMPAIGN)).json()["campaignId"]
    async with agents.agent(Scope.PROPOSE) as client:
        refused = await client.call_tool("edit_campaign_draft", {"campaignId": foreign, **CAMPAIGN, "name": "Other"})
        assert "requires the scope `manage`" in error_of(refused)
        own = (await call(client, "create_campaign_draft", **CAMPAIGN))["campaignId"]
        edited = await call(client, "edit_campaign_draft", campaignId=own, **{**CAMPAIGN, "name": "Better"})
        assert edited["name"] == "Better"
        reviewed = {**CAMPAIGN, "name": "Reviewed"}
        assert (await agents.api.client.put(f"/v1/campaigns/{own}", json=reviewed)).status_code == 200
        refused = await client.call_tool("edit_campaign_draft", {"campaignId": own, **CAMPAIGN})
        assert "requires the scope `manage`" in error_of(refused)
    assert (await agents.api.client.get(f"/v1/campaigns/{own}")).json()["name"] == "Reviewed"


@pytest.mark.promise("api-key-scopes")
async def test_proposal_cannot_change_a_started_campaign(agents: Agents) -> None:
    campaign = (await agents.api.client.post("/v1/campaigns", json=CAMPAIGN)).json()["campaignId"]
    assert (await agents.api.client.post(f"/v1/campaigns/{campaign}/start")).status_code == 200
    async with agents.agent(Scope.PROPOSE) as client:
        refused = await client.call_tool("edit_campaign_draft", {"campaignId": campaign, **CAMPAIGN, "name": "Other"})
        assert "NOT_POSSIBLE_NOW" in error_of(refused)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("create_campaign_draft", {"name": "x"}, "content"),
        ("explain_campaign", {"campaignId": "none"}, "NOT_FOUND"),
        ("explain_campaign", {"campaignId": "x/../../templates"}, "without slashes"),
        ("explain_campaign", {}, "campaignId"),
        ("search_messages", {"subject": "Hello"}, "Its arguments: limit, cursor, status"),
        ("no_such_tool", {}, "no tool"),
    ],
)
async def test_invalid_call_is_an_error_with_the_reason(
    agents: Agents, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    async with agents.agent(Scope.PROPOSE) as client:
        assert expected in error_of(await client.call_tool(tool, arguments))


async def test_agent_sees_only_its_own_tenant(agents: Agents) -> None:
    campaign = (await agents.api.stranger.post("/v1/campaigns", json={**CAMPAIGN, "lists": []})).json()["campaignId"]
    async with agents.agent(Scope.READ) as client:
        assert "NOT_FOUND" in error_of(await client.call_tool("show_campaign", {"campaignId": campaign}))
        assert (await call(client, "list_campaigns"))["campaigns"] == []


@pytest.mark.parametrize("key", [None, "Bearer mw_wrong", "Basic YTpi"])
async def test_request_without_a_valid_key_is_refused(agents: Agents, key: str | None) -> None:
    headers = {"Authorization": key} if key else {}
    answer = await agents.api.anonymous.post("/mcp", json={}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
