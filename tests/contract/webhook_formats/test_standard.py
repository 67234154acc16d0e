"""The format `standard`, verified by the library of Standard Webhooks."""

import pytest

from mailwright.domain.clock import DAY
from mailwright.domain.errors import InvalidInput
from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import DELIVERED
from tests.standins.http import Answer
from tests.webhook_formats import Application

standardwebhooks = pytest.importorskip("standardwebhooks", reason="standardwebhooks is not installed")


async def test_request_is_verified_by_the_library(application: Application) -> None:
    endpoint, secret = await application.listen("standard", EventType.SENT)
    await application.deliveries.create_test(endpoint, actor="test")
    [request] = await application.dispatch()
    found = standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))
    assert (found["type"], found["data"]["webhookId"]) == ("test", endpoint.webhook_id)
    assert found["data"]["id"] == request.headers["webhook-id"]
    changed = request.body.replace(b"test", b"best")
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(changed, dict(request.headers))


async def test_both_secrets_verify_during_a_rotation(application: Application) -> None:
    endpoint, old = await application.listen("standard")
    endpoint, new = await application.endpoints.rotate(endpoint.webhook_id, tenant_id=None, actor="test")
    await application.deliveries.create_test(endpoint, actor="test")
    [request] = await application.dispatch()
    for secret in (old, new):
        standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))
    application.clock.advance(DAY)
    after = await application.endpoints.find(endpoint.webhook_id, tenant_id=None)
    assert len(after.keys(application.clock.now())) == 1


async def test_failed_delivery_keeps_its_id(application: Application) -> None:
    endpoint, _ = await application.listen("standard")
    await application.deliveries.create_test(endpoint, actor="test")
    application.receiver.answer(Answer(500), times=1)
    [first] = await application.dispatch()
    application.clock.advance(DAY)
    [second] = await application.dispatch()
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    [delivery] = await application.deliveries.list_deliveries(endpoint, limit=9)
    assert (delivery.status, delivery.attempts) == (DELIVERED, 2)


@pytest.mark.parametrize(
    ("format_name", "types", "field", "words"),
    [
        ("sendgird", (), "format", "choose from mailwright, standard, sendgrid"),
        ("sendgrid", ("joined",), "types", "'joined' is not an event type of webhooks in the format sendgrid"),
    ],
)
async def test_unknown_format_and_foreign_event_type_are_refused(
    application: Application, format_name: str, types: tuple[str, ...], field: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        await application.listen(format_name, *types)
    assert refused.value.field == field
    assert await application.endpoints.list_all(1) == []
