"""Mailing lists and subscriptions."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.contacts import ContactResponse
from mailwright.actions.contacts import show as show_contact
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, AgentTool, Argument, Details, Noun, Option, Table, time_of
from mailwright.audience import lists
from mailwright.audience.list_removal import ListRemoval
from mailwright.audience.lists import GENERAL
from mailwright.audience.search import count_subscribers
from mailwright.audience.status import ContactStatusService
from mailwright.domain.tracking import TrackingMode
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import Address, Description, ListKey, RequestModel, RequiredName

noun = Noun(
    "list",
    "Mailing lists and subscriptions.",
    "/v1/lists",
    parameters={"list_key": ("KEY", "The list key, for example product-news.")},
)


ListName = Annotated[RequiredName, Field(description="The name that subscribers see.")]
ListDescription = Annotated[Description, Field(description="One line for subscribers.")]
Public = Annotated[bool, Option("--public/--private"), Field(description="Whether public pages show the list.")]
Confirmation = Annotated[
    bool, Option("--confirm/--no-confirm"), Field(description="Whether new subscribers confirm by email.")
]
Tracking = Annotated[TrackingMode, Field(description="The most tracking of opens and clicks that this list allows.")]


class ListsQuery(RequestModel):
    archived: Annotated[bool, Field(description="Include archived lists.")] = False
    subscribers: Annotated[
        bool, Field(description="Count the subscribers of each list."), Option("--subscribers/--no-subscribers")
    ] = False


class ListUpdateRequest(RequestModel):
    """Fields that are left out keep their value. An empty string removes the description."""

    name: ListName | None = None
    description: ListDescription | None = None
    is_public: Public | None = None
    requires_confirmation: Confirmation | None = None
    tracking: Tracking | None = None


class ListRequest(RequestModel):
    """A list that recipients can subscribe to."""

    list_key: Annotated[ListKey, Argument("KEY"), Field(description="The list key, for example product-news.")]
    name: ListName | None = None
    description: ListDescription | None = None
    is_public: Public = True
    requires_confirmation: Confirmation = False
    tracking: Tracking | None = None


class UnsubscribeRequest(RequestModel):
    """The contact to unsubscribe."""

    email: Annotated[Address, Argument("ADDRESS"), Field(description="The email address.")]


class SubscribeRequest(UnsubscribeRequest):
    """The contact to subscribe. `confirmed`: they agreed elsewhere, so no confirmation email is sent."""

    confirmed: Annotated[
        bool, Field(description="Send no confirmation email, because the contact confirmed elsewhere.")
    ] = False


class ListResponse(ResponseModel):
    list_key: str
    name: str
    description: str | None
    is_public: bool
    requires_confirmation: bool
    tracking: TrackingMode | None
    created_at: Time
    archived_at: Time | None
    subscribers: Annotated[int | None, Field(description="Only if they were counted.")] = None


class ListsResponse(ResponseModel):
    lists: list[ListResponse]


@noun.get(
    command="list",
    command_defaults={"subscribers": True},
    agent=AgentTool("list_lists", "List the mailing lists."),
    shown=Table(
        "lists",
        {
            "Key!": "list_key",
            "Name": "name",
            "Public": "is_public",
            "Sign-up": lambda each: "double opt-in" if each.requires_confirmation else "single opt-in",
            "Subscribers#": "subscribers",
            "Created ({zone})!": time_of("created_at"),
        },
        nothing=f"{{tenant}} has only the list {GENERAL}. Create one with `mailwright list create KEY`.",
    ),
)
async def list_lists(at: Context, query: ListsQuery) -> ListsResponse:
    """List the mailing lists, by name. `general`, which stands for all bulk email, always exists and is not listed."""
    found = await lists.list_all(at.database, at.tenant_id, with_archived=query.archived)
    shown = [ListResponse.model_validate(each) for each in found]
    if query.subscribers:
        for each in shown:
            each.subscribers = await count_subscribers(at.database.reader, at.tenant_id, each.list_key)
    return ListsResponse(lists=shown)


@noun.get(
    "/{listKey}",
    command="show",
    shown=Details(
        {
            "key": "list_key",
            "name": "name",
            "description": "description",
            "public": "is_public",
            "sign-up": lambda each: "double opt-in" if each.requires_confirmation else "single opt-in",
            "tracking": "tracking",
            "subscribers": "subscribers",
            "archived": time_of("archived_at"),
            "created": time_of("created_at"),
        }
    ),
)
async def show(at: Context, list_key: str) -> ListResponse:
    """Show a mailing list with the number of its subscribers."""
    every = await lists.list_all(at.database, at.tenant_id, with_archived=True)
    found = next((each for each in every if each.list_key == list_key), None)
    if found is None:
        raise lists.NoSuchList(list_key)
    shown = ListResponse.model_validate(found)
    shown.subscribers = await count_subscribers(at.database.reader, at.tenant_id, list_key)
    return shown


@noun.post(scope=MANAGE, audit="list.create", command="create", shown="Created the list {list_key}.")
async def create(at: Context, wanted: ListRequest) -> ListResponse:
    """Create a mailing list. Recipients can unsubscribe from each list separately.

    A list that is not public is visible only to its subscribers. A list that requires confirmation sends new
    subscribers a confirmation email, and nothing else before they confirm.
    """
    made = await lists.create(at.database, at.clock, at.tenant_id, **dict(wanted), actor=at.actor)
    return ListResponse.model_validate(made)


@noun.patch("/{listKey}", scope=MANAGE, audit="list.edit", command="edit", shown="Updated the list {list_key}.")
async def change(at: Context, list_key: str, wanted: ListUpdateRequest) -> ListResponse:
    """Change a mailing list. Fields that are left out keep their value; an empty string removes the description.

    The key and the subscribers stay. A change of `requiresConfirmation` affects new subscribers only.
    """
    changed = await lists.edit(at.database, at.clock, at.tenant_id, list_key, **dict(wanted), actor=at.actor)
    return ListResponse.model_validate(changed)


@noun.delete(
    "/{listKey}",
    scope=MANAGE,
    audit="list.delete",
    command="delete",
    question="Delete the list {list_key} and its subscriptions?",
    shown="Deleted the list {list_key}. For 30 days, `mailwright list restore {list_key}` brings it back.",
)
async def delete(at: Context, list_key: str) -> None:
    """Delete a mailing list and its subscriptions. The contacts stay, and past unsubscribes stay recorded.

    A list that an unfinished campaign, an article or a segment uses cannot be deleted. `restore` brings the list and
    its subscriptions back for 30 days.
    """
    await ListRemoval(at.database, at.clock).delete(at.tenant_id, list_key, actor=at.actor)


@noun.post(
    "/{listKey}/archive",
    scope=MANAGE,
    audit="list.archive",
    command="archive",
    shown="Archived the list {list_key}.",
)
async def archive(at: Context, list_key: str) -> None:
    """Hide a mailing list: sign-up forms, preference pages and campaigns no longer offer it. Its subscribers stay."""
    await ListRemoval(at.database, at.clock).archive(at.tenant_id, list_key, actor=at.actor)


@noun.post(
    "/{listKey}/restore",
    scope=MANAGE,
    audit="list.restore",
    command="restore",
    shown="Restored the list {list_key}.",
)
async def restore(at: Context, list_key: str) -> None:
    """Bring back an archived or deleted mailing list with its subscribers."""
    await ListRemoval(at.database, at.clock).restore(at.tenant_id, list_key, actor=at.actor)


def _subscribed(contact: ContactResponse, given: Mapping[str, Any]) -> Iterator[str]:
    is_pending = any(each.is_pending for each in contact.lists if each.list_key == given["list_key"])
    yield (
        f"Sent a confirmation email to {contact.email}."
        if is_pending
        else f"{contact.email} is subscribed to {given['list_key']}."
    )


@noun.post("/{listKey}/subscribe", scope=MANAGE, audit="contact.subscribe", command="subscribe", shown=_subscribed)
async def subscribe(at: Context, list_key: str, wanted: SubscribeRequest) -> ContactResponse:
    """Subscribe a contact to the list, even one who unsubscribed before. Get their consent first.

    Suppressions stay: a contact who bounced, complained or unsubscribed from all bulk messages still gets nothing, and
    `suppressions` shows it. If the list requires confirmation, or an imported file said no for the contact, they get a
    confirmation email, and `isPending` is true until they confirm.
    """
    await lists.find(at.database, at.tenant_id, list_key)
    named: dict[str, str] = {"source": at.source, "actor": at.actor}
    if wanted.confirmed:
        await ContactStatusService(at.database, at.clock).subscribe(at.tenant_id, wanted.email, list_key, **named)
    else:
        from mailwright.app.system_emails import make_double_opt_in  # noqa: PLC0415 - slow to import

        await at.require_default_sender()
        double_opt_in = await make_double_opt_in(at.settings, at.database, at.clock)
        await double_opt_in.subscribe(at.tenant_id, wanted.email, list_key, **named)
    return await show_contact(at, wanted.email)


@noun.post(
    "/{listKey}/unsubscribe",
    scope=MANAGE,
    audit="contact.unsubscribe",
    command="unsubscribe",
    shown="{email} is unsubscribed from {list_key}.",
)
async def unsubscribe(at: Context, list_key: str, wanted: UnsubscribeRequest) -> ContactResponse:
    """Unsubscribe a contact from the list, or with `general` from all bulk email. Repeating it changes nothing."""
    await lists.find(at.database, at.tenant_id, list_key)
    status = ContactStatusService(at.database, at.clock)
    await status.unsubscribe(at.tenant_id, wanted.email, list_key, source=at.source, actor=at.actor)
    return await show_contact(at, wanted.email)
