"""The suppression list: addresses that get no messages, or none of a list."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Argument, Noun, Option, OtherStatus, Table, time_of
from mailwright.audience import suppressions
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.schemas.base import ResponseModel, extend
from mailwright.schemas.paging import Page
from mailwright.schemas.suppressions import SuppressionResponse
from mailwright.sources.api.fields import Address, RequestModel, RequiredName, SuppressionScope

noun = Noun(
    "suppression",
    "The suppression list.",
    "/v1/suppressions",
    parameters={"email": ("ADDRESS", "The email address.")},
)


class SuppressionRequest(RequestModel):
    """An address to suppress, and why."""

    email: Annotated[Address, Argument("ADDRESS"), Field(description="The email address.")]
    reason: Annotated[RequiredName, Field(description="The reason, shown with each message that is refused.")] = (
        "manual"
    )
    list_key: Annotated[
        SuppressionScope,
        Option("--list"),
        Field(description="The scope: * for all email, general for all bulk email, or a list key."),
    ] = ALL_MESSAGES


class SuppressionQuery(RequestModel):
    list_key: Annotated[
        SuppressionScope | None, Option("--list"), Field(description="Only the suppression with this scope.")
    ] = None


class SuppressionAddedResponse(SuppressionResponse):
    """`isNew`: whether this request created the suppression. Otherwise it existed, with this reason."""

    is_new: bool


class SuppressionListResponse(ResponseModel):
    suppressions: list[SuppressionResponse]
    next_cursor: str | None


def _added(entry: SuppressionAddedResponse, _given: Mapping[str, Any]) -> Iterator[str]:
    yield f"{entry.email} is suppressed." if entry.is_new else f"{entry.email} was already suppressed: {entry.reason}."


@noun.post(
    scope=MANAGE,
    audit="suppression.add",
    other_status=OtherStatus(HTTPStatus.OK, lambda entry: not entry.is_new),
    command="create",
    shown=_added,
)
async def add(at: Context, wanted: SuppressionRequest) -> SuppressionAddedResponse:
    """Suppress an address. Nothing more is sent to it, and queued messages to it are stopped.

    A `listKey` limits this: `general` to all bulk messages, a list key to the messages of that list. Adding the same
    suppression again keeps the first reason, unless it is a bounce.
    """
    entry, is_new = await suppressions.add(
        at.database, at.clock, at.tenant_id, **dict(wanted), source=at.source, actor=at.actor
    )
    return extend(SuppressionAddedResponse, SuppressionResponse.model_validate(entry), is_new=is_new)


@noun.get(
    command="list",
    command_defaults={"limit": 100},
    shown=Table(
        "suppressions",
        {
            "Address": "email",
            "List!": "list_key",
            "Reason": "reason",
            "Source": "source",
            "Since ({zone})!": time_of("created_at"),
        },
        nothing="The suppression list of {tenant} is empty.",
    ),
)
async def list_suppressions(at: Context, page: Page) -> SuppressionListResponse:
    """List the suppressions, latest first."""
    found = await suppressions.list_page(at.database, at.tenant_id, limit=page.limit, before=page.before("suppression"))
    next_cursor = page.next_cursor("suppression", [suppression.id for suppression in found])
    return SuppressionListResponse(suppressions=found, next_cursor=next_cursor)


# An address can contain a slash before its @.
@noun.delete(
    "/{email:path}",
    scope=MANAGE,
    audit="suppression.lift",
    command="delete",
    shown="{email} is no longer suppressed.",
)
async def remove(at: Context, email: str, only: SuppressionQuery) -> None:
    """Remove all suppressions of an address, or the one with this `listKey`. Messages that it refused stay refused."""
    await suppressions.remove(at.database, at.tenant_id, email, list_key=only.list_key, actor=at.actor, clock=at.clock)
