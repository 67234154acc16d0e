"""Models of mailing lists and their subscriptions."""

from typing import Annotated

from pydantic import Field

from mailwright.domain.tracking import TrackingMode
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import Address, Description, ListKey, RequestModel, RequiredName


class ListsQuery(RequestModel):
    archived: Annotated[bool, Field(description="Include archived lists.")] = False


class ListRequest(RequestModel):
    """A list that recipients can subscribe to."""

    list_key: ListKey
    name: RequiredName | None = None
    description: Description | None = None
    is_public: bool = True
    requires_confirmation: bool = False
    tracking: TrackingMode | None = None


class ListUpdateRequest(RequestModel):
    """Fields that are left out keep their value. An empty string removes the description."""

    name: RequiredName | None = None
    description: Description | None = None
    is_public: bool | None = None
    requires_confirmation: bool | None = None
    tracking: TrackingMode | None = None


class UnsubscribeRequest(RequestModel):
    """The contact to unsubscribe."""

    email: Address


class SubscribeRequest(UnsubscribeRequest):
    """The contact to subscribe. `confirmed`: they agreed elsewhere, so no confirmation email is sent."""

    confirmed: bool = False


class ListResponse(ResponseModel):
    list_key: str
    name: str
    description: str | None
    is_public: bool
    requires_confirmation: bool
    tracking: TrackingMode | None
    created_at: Time
    archived_at: Time | None


class ListsResponse(ResponseModel):
    lists: list[ListResponse]
