"""Tenants and their limits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, cast

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    PLATFORM_MANAGE,
    PLATFORM_READ,
    Argument,
    Details,
    Noun,
    Option,
    Table,
    camel_case,
    time_of,
)
from mailwright.domain.errors import InvalidInput
from mailwright.domain.guard_rails import GuardRailSettings
from mailwright.outbox import tenants
from mailwright.outbox.tenants import Tenant, TenantChanges
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "tenant",
    "Tenants and their limits.",
    "/v1/tenants",
    reads=PLATFORM_READ,
    parameters={"tenant_name": ("NAME", "The name of the tenant, for example acme-shop.")},
)

# Null removes the tenant's own limit, so that the limit from the settings applies.
_Number = Annotated[int, Option(metavar="N|none")]
_Text = Annotated[str, Field(max_length=20_000)]


class TenantUpdateRequest(RequestModel):
    """Fields that are left out keep their value. Null removes a limit, so that the one of the settings applies."""

    weight: Annotated[int | None, Option(metavar="N"), Field(description="Share of workers, relative to others.")] = (
        None
    )
    max_in_flight: Annotated[_Number | None, Field(description="Messages in flight at once.")] = None
    rate_per_second: Annotated[_Number | None, Field(description="Messages per second.")] = None
    rate_per_hour: Annotated[_Number | None, Field(description="Messages per clock hour.")] = None
    daily_limit: Annotated[_Number | None, Field(description="Messages per day.")] = None
    working_hours: Annotated[
        _Text | None,
        Option(metavar="HOURS|none"),
        Field(
            description="Working hours for bulk email: 09:00-18:00, 22:00-06:00 or Mon-Fri 09:00-18:00, Sat "
            "10:00-14:00."
        ),
    ] = None
    timezone: Annotated[
        _Text | None, Option(metavar="ZONE|none"), Field(description="Time zone, for example Europe/Lisbon.")
    ] = None
    warmup_since: Annotated[
        _Text | None,
        Option(metavar="DATE|none"),
        Field(description="First day of the warm-up, for example 2027-01-15."),
    ] = None
    interval_ms: Annotated[
        int | None,
        Option(metavar="MS|none"),
        Field(description="Minimum milliseconds between the starts of two sends."),
    ] = None
    one_at_a_time: Annotated[
        bool | None, Option(metavar="yes|no|none"), Field(description="Send one message at a time.")
    ] = None
    tracking: Annotated[
        _Text | None,
        Option(metavar="MODE|none"),
        Field(description="The tracking that is allowed at most: off, anonymous or individual."),
    ] = None
    tracking_host: Annotated[
        _Text | None,
        Option(metavar="URL|none"),
        Field(description="Host of tracked links, for example https://click.example.com."),
    ] = None
    guard_rails: Annotated[
        _Text | None,
        Option(metavar="JSON|none"),
        Field(description='Guard rails of campaigns as JSON, for example {"complaintStopPercent": 0.2}.'),
    ] = None
    frequency_cap: Annotated[
        _Text | None,
        Option(metavar="CAP|off|none"),
        Field(description="Bulk emails that one contact receives at most, for example `3 per 7 days`."),
    ] = None
    reply_forward_to: Annotated[
        _Text | None, Option(metavar="ADDRESS|none"), Field(description="Address that replies are forwarded to.")
    ] = None
    requires_second_factor: Annotated[
        bool | None,
        Option("--require-second-factor", metavar="yes|no"),
        Field(description="Whether users need two-factor authentication."),
    ] = None
    approval_over: Annotated[
        _Number | None,
        Field(description="A send to more recipients than this needs the approval of a second person."),
    ] = None

    def changes(self) -> TenantChanges:
        """Return the fields of the request."""
        given = self.model_dump(include=self.model_fields_set - {"name"})
        if name := next((name for name in _NOT_NULL if name in given and given[name] is None), None):
            raise InvalidInput("{name} cannot be null.", field=camel_case(name), name=camel_case(name))
        return cast("TenantChanges", given)


_NOT_NULL: Final = ("weight", "requires_second_factor")


class TenantRequest(TenantUpdateRequest):
    """A tenant: a company with its own data, keys and limits."""

    name: Annotated[
        str,
        Argument("NAME"),
        Field(max_length=200, description="1 to 63 characters of a-z, 0-9 and -, for example acme-shop."),
    ]


class TenantResponse(ResponseModel):
    """A tenant. A limit is null if the one of the settings applies. `guardRails` is JSON."""

    id: int
    name: str
    weight: int
    max_in_flight: int | None
    rate_per_second: int | None
    rate_per_hour: int | None
    daily_limit: int | None
    working_hours: str | None
    timezone: str | None
    created_at: Time
    warmup_since: str | None
    interval_ms: int | None
    one_at_a_time: bool | None
    tracking: str | None
    tracking_host: str | None
    guard_rails: str | None
    frequency_cap: str | None
    reply_forward_to: str | None
    sections: str
    requires_second_factor: bool
    approval_over: int | None
    senders_restricted_since: Time | None


class TenantDefaultsResponse(ResponseModel):
    """The limits of the settings."""

    rate_per_second: int | None
    rate_per_hour: int | None
    daily_limit: int | None
    working_hours: str | None
    timezone: str | None
    warmup_since: str | None
    interval_ms: int | None
    one_at_a_time: bool | None
    frequency_cap: str | None


class TenantDetailsResponse(TenantResponse):
    """`defaults`: the limits of the settings, which apply where the tenant has none."""

    defaults: TenantDefaultsResponse


class TenantListResponse(ResponseModel):
    tenants: list[TenantResponse]


@noun.post(
    scope=PLATFORM_MANAGE,
    audit="tenant.create",
    command="create",
    shown="Created the tenant {name}. Create an API key with `mailwright key create --tenant {name}`.",
)
async def create(at: Context, wanted: TenantRequest) -> TenantResponse:
    """Create a tenant: a company with its own data, keys and limits."""
    with _api_names():
        made = await tenants.create(at.database, at.clock, wanted.name, actor=at.actor, **wanted.changes())
    return TenantResponse.model_validate(made)


@noun.get(
    command="list",
    shown=Table(
        "tenants",
        {
            "Tenant!": "name",
            "Weight#": "weight",
            "In flight#": "max_in_flight",
            "/s#": "rate_per_second",
            "/hour#": "rate_per_hour",
            "/day#": "daily_limit",
            "Hours!": "working_hours",
            "Zone!": "timezone",
            "Created!": lambda each: each.created_at[:10],
        },
        nothing="There are no tenants.",
    ),
)
async def list_tenants(at: Context) -> TenantListResponse:
    """List all tenants, by name."""
    found = await tenants.list_all(at.database)
    return TenantListResponse(tenants=[TenantResponse.model_validate(each) for each in found])


def _text(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _limit(name: str) -> Callable[[TenantDetailsResponse], str]:
    """Return the cell of a limit: the tenant's own, or the one of the settings."""

    def cell(tenant: TenantDetailsResponse) -> str:
        own = getattr(tenant, name)
        return _text(own) if own is not None else f"{_text(getattr(tenant.defaults, name))} (settings)"

    return cell


def _guard_rails(tenant: TenantDetailsResponse) -> str:
    """Return the tenant's own thresholds, one per line."""
    own = GuardRailSettings.model_validate_json(tenant.guard_rails or "{}").model_dump(exclude_none=True)
    lines = [f"{name.removesuffix('_percent').replace('_', ' ')}: {_threshold(name, own[name])}" for name in own]
    return "\n".join(lines) or "those of the settings"


def _threshold(name: str, value: Any) -> str:
    return f"{value:g} %" if name.endswith("_percent") else str(value).replace("_", " ")


def _approvals(tenant: TenantDetailsResponse) -> str:
    over = tenant.approval_over
    return "none" if over is None else f"sends with more than {over:,} recipients"


_SHOWN: Final = Details(
    {
        "tenant": "name",
        "id": "id",
        "weight": "weight",
        "messages in flight": lambda each: _text(each.max_in_flight),
        "per second": _limit("rate_per_second"),
        "interval (ms)": _limit("interval_ms"),
        "one at a time": _limit("one_at_a_time"),
        "per hour": _limit("rate_per_hour"),
        "per day": _limit("daily_limit"),
        "working hours": _limit("working_hours"),
        "time zone": _limit("timezone"),
        "warm-up since": _limit("warmup_since"),
        "frequency cap": _limit("frequency_cap"),
        "guard rails": _guard_rails,
        "tracking": lambda each: each.tracking or "not restricted",
        "tracking host": lambda each: each.tracking_host or "the public URL",
        "replies forwarded to": lambda each: each.reply_forward_to or "the address in the settings",
        "two-factor authentication": lambda each: "required" if each.requires_second_factor else "optional",
        "approvals": _approvals,
        "created": time_of("created_at"),
    }
)


@noun.get("/{tenantName}", command="show", shown=_SHOWN)
async def show(at: Context, tenant_name: str) -> TenantDetailsResponse:
    """Show a tenant and the limits that apply to it: its own limits, or else those from the settings."""
    return _details(at, await tenants.find(at.database, tenant_name))


@noun.patch("/{tenantName}", scope=PLATFORM_MANAGE, audit="tenant.change", command="edit", shown=_SHOWN)
async def edit(at: Context, tenant_name: str, wanted: TenantUpdateRequest) -> TenantDetailsResponse:
    """Edit a tenant's weight and limits. Options that are not given stay as they are. Takes effect within a second."""
    with _api_names():
        changes = {"actor": at.actor, "clock": at.clock, **wanted.changes()}
        return _details(at, await tenants.change(at.database, tenant_name, **changes))  # type: ignore[arg-type]


@noun.delete(
    "/{tenantName}",
    scope=PLATFORM_MANAGE,
    audit="tenant.delete",
    command="delete",
    question="Delete the tenant {tenant_name}?",
    shown="Deleted the tenant {tenant_name}.",
)
async def delete(at: Context, tenant_name: str) -> None:
    """Delete a tenant without data, whose API keys were revoked at least a minute ago.

    A tenant that has ever sent or stored anything cannot be deleted, because its unsubscribe links must keep working.
    """
    await tenants.delete(at.database, at.clock, tenant_name, actor=at.actor)


def _details(at: Context, tenant: Tenant) -> TenantDetailsResponse:
    from mailwright.app.limits import default_limits  # noqa: PLC0415 - slow to import

    defaults = TenantDefaultsResponse.model_validate(default_limits(at.settings))
    return extend(TenantDetailsResponse, TenantResponse.model_validate(tenant), defaults=defaults)


@contextmanager
def _api_names() -> Iterator[None]:
    """Name the field of an error as in the API."""
    try:
        yield
    except InvalidInput as error:
        error.field = camel_case(error.field) if error.field else None
        raise
