"""The pages of contact events, and the condition on events in the segment editor."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience.event_schema import EventSchemaCounter
from mailwright.domain.clock import ManualClock
from mailwright.outbox import tenants
from mailwright.sources.api.messages import RequestContext
from mailwright.web.app import create_app
from mailwright.web.dashboard.segments_forms import filter_form_of, filter_of
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, Bench
from tests.pages import HOME, PASSWORD, Visit, a_visit


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def alan(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("alan", PASSWORD, Role.VIEWER, actor="test")
    async with a_visit(create_app(web_engine), "alan") as visit:
        yield visit


async def submit(engine: Engine, tenant_id: int, *events: dict[str, Any]) -> None:
    await engine.api_events.submit_all(RequestContext(Caller(tenant_id, "test"), "test"), events)
    await EventSchemaCounter(engine.database).count_all()


async def test_page_shows_events_of_the_tenant(alan: Visit, web_engine: Engine, clock: ManualClock) -> None:
    other = await tenants.create(web_engine.database, clock, "acme")
    await submit(web_engine, other.id, {"event": "secret.plan", "email": "eve@example.com"})
    await alan.open("/events")
    assert "No events yet" in alan.words()
    properties = {"total": 20, "note": "<b>" + "x" * 100}
    ada = {"event": "order.placed", "email": "ada@example.com", "properties": properties, "createContact": True}
    await submit(web_engine, DEFAULT_TENANT, ada, {"event": "Signed up", "email": "bob@example.com"})
    words = (await alan.open("/events")).words()
    for text in ("order.placed", "Signed up", "total", "number", "ada@example.com", "not a contact"):
        assert text in words
    assert "secret" not in alan.text
    assert "<b>x" not in alan.text
    assert "x" * 100 not in alan.text
    assert "bob@example.com" not in (await alan.open("/events?event=order.placed")).words()
    assert "No events found" in (await alan.open("/events?q=nobody")).words()
    assert "order.placed" in (await alan.open("/contacts/ada@example.com")).words()


@pytest.mark.parametrize(
    "condition",
    [
        {"event": {"name": "order.placed"}},
        {"not": {"event": {"name": "order.placed", "withinDays": 30, "atLeast": 2}}},
    ],
)
def test_segment_editor_shows_event_conditions(condition: dict[str, Any]) -> None:
    form = filter_form_of(condition)
    assert form is not None
    assert filter_of(form) == {"all": [condition]}


def test_segment_editor_leaves_property_conditions_as_json() -> None:
    assert filter_form_of({"event": {"name": "order.placed", "where": {"total": 5}}}) is None
