"""Webhook settings: endpoints, their status and their deliveries."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.actions import webhooks as actions
from mailwright.actions.webhooks import NewWebhookRequest, WebhookRequest
from mailwright.app.wiring import Engine
from mailwright.domain.states import EventType
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.events.outbound.deliveries import NEWEST, WebhookDeliveries
from mailwright.events.outbound.endpoints import WebhookEndpoint
from mailwright.events.outbound.formats import FORMATS
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.web.context import visitor_context
from mailwright.web.dashboard.input_forms import InputForm, stored_values
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

HOME: Final = "/settings/webhooks"

router = APIRouter(prefix=HOME, route_class=PageRoute, include_in_schema=False)

# Event types by group, each with its meaning.
GROUPS: Final = (
    (
        lazy_gettext("Final result"),
        (
            (EventType.SENT, lazy_gettext("accepted by the provider")),
            (EventType.FAILED, lazy_gettext("failed permanently")),
            (EventType.CANCELLED, lazy_gettext("cancelled before it was sent")),
            (EventType.IN_DOUBT, lazy_gettext("no definite provider response")),
            (EventType.CLOSED_UNKNOWN, lazy_gettext("closed without a definite provider response")),
        ),
    ),
    (
        lazy_gettext("Delivery reports"),
        (
            (EventType.ACCEPTED, lazy_gettext("accepted for delivery")),
            (EventType.DELIVERED, lazy_gettext("accepted by the recipient’s server")),
            (EventType.DEFERRED, lazy_gettext("temporarily deferred by the recipient’s server")),
        ),
    ),
    (
        lazy_gettext("Recipient activity"),
        (
            (EventType.BOUNCED, lazy_gettext("rejected by the recipient’s server")),
            (EventType.COMPLAINED, lazy_gettext("marked as spam")),
            (EventType.NOT_SPAM, lazy_gettext("marked as not spam")),
            (EventType.UNSUBSCRIBED, lazy_gettext("unsubscribed through the email or the provider")),
            (EventType.OPENED, lazy_gettext("email opened")),
            (EventType.CLICKED, lazy_gettext("link clicked")),
            (EventType.CORRECTED, lazy_gettext("open or click recognised as a machine’s")),
            (EventType.REPLIED, lazy_gettext("replied, by a person or automatically")),
        ),
    ),
    (
        lazy_gettext("Public pages"),
        (
            (EventType.JOINED, lazy_gettext("subscribed or resubscribed to a list")),
            (EventType.LEFT, lazy_gettext("unsubscribed from a list or from everything")),
        ),
    ),
    (
        lazy_gettext("Erasures"),
        (
            (EventType.CONTACT_ERASING, lazy_gettext("the deletion of a contact waits for the result of an email")),
            (EventType.CONTACT_ERASED, lazy_gettext("the data of a contact is deleted")),
        ),
    ),
    (
        lazy_gettext("Campaigns"),
        (
            (EventType.CAMPAIGN_STARTED, "started"),
            (EventType.CAMPAIGN_HELD, lazy_gettext("not being sent, with the reason")),
            (EventType.CAMPAIGN_WARNED, lazy_gettext("guard rails found too many bounces or complaints")),
            (EventType.CAMPAIGN_RESUMED, lazy_gettext("being sent again")),
            (EventType.CAMPAIGN_FINISHED, "finished"),
            (EventType.CAMPAIGN_CANCELLED, "cancelled"),
        ),
    ),
    (
        lazy_gettext("Sequences"),
        (
            (EventType.SEQUENCE_ENTERED, lazy_gettext("somebody entered")),
            (EventType.SEQUENCE_STEP, lazy_gettext("a step happened")),
            (EventType.SEQUENCE_FAILED, lazy_gettext("a step failed, with the reason")),
            (EventType.SEQUENCE_ENDED, lazy_gettext("ended for somebody, with the reason")),
            (EventType.SEQUENCE_WEBHOOK, lazy_gettext("sent by a step that names this webhook")),
        ),
    ),
)
_PAGE: Final = 30
# The event types that most receivers need.
_USUAL_TYPES: Final = (EventType.FAILED, EventType.BOUNCED, EventType.COMPLAINED, EventType.UNSUBSCRIBED)

Which = Annotated[Literal["PENDING", "DELIVERED", "FAILED", ""], Query()]


@router.get("")
async def show_all(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _list_page(request, engine, visitor, InputForm(NewWebhookRequest, types=_USUAL_TYPES))


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Create a webhook and show its secret once, in the response itself."""
    form = await InputForm(NewWebhookRequest).read(request)
    made = await form.submit(partial(actions.create, visitor_context(request, visitor)))
    if made is None:
        return await _list_page(request, engine, visitor, form)
    found = await _found(engine, visitor, made.webhook_id)
    return await _one_page(request, engine, visitor, found, secret=made.secret, is_new=True)


@router.get("/{webhook_id}")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: AdminDep,
    webhook_id: str,
    status: Which = "",
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    found = await _found(engine, visitor, webhook_id)
    return await _one_page(request, engine, visitor, found, status=status, cursor=cursor)


@router.get("/{webhook_id}/stream")
async def watch(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    await _found(engine, visitor, webhook_id)

    async def render_parts() -> Mapping[str, str]:
        found = await _found(engine, visitor, webhook_id)
        values = {"webhook": found, **await _delivery_values(engine, found)}
        return {
            "status": render_part(request, visitor, "webhooks/status.html", **values),
            "deliveries": render_part(request, visitor, "webhooks/deliveries.html", **values),
        }

    return stream(request, visitor, f"webhook:{webhook_id}", render_parts, Role.ADMIN)


@router.get("/{webhook_id}/edit")
async def show_form(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    found = await _found(engine, visitor, webhook_id)
    form = InputForm(WebhookRequest, **stored_values(found))
    return await _page(request, visitor, "edit", webhook=found, form=form)


@router.post("/{webhook_id}/edit")
async def edit(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    found, form = await _found(engine, visitor, webhook_id), await InputForm(WebhookRequest).read(request)
    if await form.submit(partial(actions.edit, visitor_context(request, visitor), webhook_id)) is None:
        return await _page(request, visitor, "edit", form.status, webhook=found, form=form)
    return redirect(request, f"{HOME}/{webhook_id}", gettext("Webhook saved."))


@router.post("/{webhook_id}/resume")
async def resume(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    """Resume delivery, oldest waiting event first."""
    await actions.resume(visitor_context(request, visitor), webhook_id)
    return redirect(request, f"{HOME}/{webhook_id}", gettext("Webhook resumed. Waiting events are delivered first."))


@router.post("/{webhook_id}/secret")
async def rotate_secret(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    """Rotate the secret and show it once, in the response itself."""
    made = await actions.rotate_secret(visitor_context(request, visitor), webhook_id)
    found = await _found(engine, visitor, webhook_id)
    return await _one_page(request, engine, visitor, found, secret=made.secret)


@router.post("/{webhook_id}/test")
async def send_test(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    await actions.test(visitor_context(request, visitor), webhook_id)
    return redirect(request, f"{HOME}/{webhook_id}", gettext("Test event sent. Its result appears below."))


@router.post("/{webhook_id}/remove")
async def remove(request: Request, engine: EngineDep, visitor: AdminDep, webhook_id: str) -> Response:
    await actions.remove(visitor_context(request, visitor), webhook_id)
    return redirect(request, HOME, gettext("Webhook deleted."))


@router.post("/deliveries/{delivery_id}/redeliver")
async def redeliver(request: Request, engine: EngineDep, visitor: AdminDep, delivery_id: str) -> Response:
    again = await actions.redeliver(visitor_context(request, visitor), delivery_id)
    return redirect(request, f"{HOME}/{again.webhook_id}", gettext("Redelivery started under the same id."))


async def _list_page(
    request: Request, engine: Engine, visitor: Visitor, form: InputForm[NewWebhookRequest]
) -> Response:
    found = await engine.webhook_endpoints.list_all(visitor.tenant_id)
    return await _page(request, visitor, "list", form.status, webhooks=found, form=form, errors=form.errors)


async def _one_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    found: WebhookEndpoint,
    *,
    status: str = "",
    cursor: str | None = None,
    secret: str | None = None,
    is_new: bool = False,
) -> Response:
    delivery_values = await _delivery_values(engine, found, status, cursor)
    return await _page(
        request,
        visitor,
        "show",
        webhook=found,
        secret=secret,
        is_new=is_new,
        which=status,
        is_first=cursor is None,
        **delivery_values,
    )


async def _delivery_values(
    engine: Engine, found: WebhookEndpoint, status: str = "", cursor: str | None = None
) -> dict[str, Any]:
    before = decode_cursor("delivery", cursor)[0] if cursor else NEWEST
    some = await WebhookDeliveries(engine.database, engine.clock).list_deliveries(
        found, limit=_PAGE, before=before, status=status or None
    )
    following = encode_cursor("delivery", some[-1].key) if len(some) == _PAGE else None
    return {"deliveries": some, "following": following}


async def _page(
    request: Request, visitor: Visitor, name: str, status: HTTPStatus = HTTPStatus.OK, **values: Any
) -> Response:
    shared: dict[str, Any] = {
        "tabs": TABS,
        "groups": GROUPS,
        "formats": [(each.name, each.label) for each in FORMATS.values()],
    }
    return await page(request, visitor, f"webhooks/{name}.html", status=status, **shared, **values)


async def _found(engine: Engine, visitor: Visitor, webhook_id: str) -> WebhookEndpoint:
    return await engine.webhook_endpoints.find(webhook_id, tenant_id=visitor.tenant_id)
