"""Models of suppressions."""

from typing import Annotated

from pydantic import Field

from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import Address, RequestModel, RequiredName, SuppressionScope


class SuppressionRequest(RequestModel):
    """An address to suppress, and why."""

    email: Address
    reason: RequiredName = "manual"
    list_key: SuppressionScope = ALL_MESSAGES


class SuppressionQuery(RequestModel):
    list_key: Annotated[SuppressionScope | None, Field(description="Only the suppression with this scope.")] = None


class SuppressionResponse(ResponseModel):
    """`listKey`: the scope. `*` is all messages, `general` all bulk messages, a list key the messages of that list."""

    email: str
    list_key: str
    reason: str
    source: str
    created_at: Time


class SuppressionListResponse(ResponseModel):
    suppressions: list[SuppressionResponse]
    next_cursor: str | None
