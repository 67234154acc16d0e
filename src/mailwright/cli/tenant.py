"""`mailwright tenant`: tenants and their limits."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, table, zone_time
from mailwright.domain.guard_rails import GuardRailSettings
from mailwright.domain.permits import Limits
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.tenants import Tenant, TenantChanges
from mailwright.schemas.tenants import TenantResponse

app = group("Tenants and their limits.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="1 to 63 characters of a-z, 0-9 and -, for example acme-shop.", show_default=False
    ),
]
Weight = Annotated[
    int | None, typer.Option(min=1, help="Share of the workers relative to other tenants.", show_default=False)
]
# `none` removes the tenant's own limit, so that the limit from the settings applies.
InFlight = Annotated[str | None, typer.Option(metavar="N|none", help="Messages in flight at once.", show_default=False)]
PerSecond = Annotated[str | None, typer.Option(metavar="N|none", help="Messages per second.", show_default=False)]
PerHour = Annotated[str | None, typer.Option(metavar="N|none", help="Messages per clock hour.", show_default=False)]
PerDay = Annotated[str | None, typer.Option(metavar="N|none", help="Messages per day.", show_default=False)]
Hours = Annotated[
    str | None,
    typer.Option(
        metavar="HOURS|none",
        help="Working hours for bulk email: 09:00-18:00, 22:00-06:00 or Mon-Fri 09:00-18:00, Sat 10:00-14:00.",
        show_default=False,
    ),
]
Zone = Annotated[
    str | None, typer.Option(metavar="ZONE|none", help="Time zone, for example Europe/Lisbon.", show_default=False)
]
Warmup = Annotated[
    str | None,
    typer.Option(metavar="DATE|none", help="First day of the warm-up, for example 2027-01-15.", show_default=False),
]
Interval = Annotated[
    str | None,
    typer.Option(metavar="MS|none", help="Minimum milliseconds between the starts of two sends.", show_default=False),
]
Alone = Annotated[
    str | None,
    typer.Option(metavar="yes|no|none", help="Send one message at a time.", show_default=False),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        metavar="MODE|none",
        help="The tracking that is allowed at most: off, anonymous or individual.",
        show_default=False,
    ),
]
TrackingHost = Annotated[
    str | None,
    typer.Option(
        metavar="URL|none", help="Host of tracked links, for example https://click.example.com.", show_default=False
    ),
]
GuardRails = Annotated[
    str | None,
    typer.Option(
        metavar="JSON|none",
        help='Guard rails of campaigns, for example {"complaintStopPercent": 0.2}.',
        show_default=False,
    ),
]
FrequencyCap = Annotated[
    str | None,
    typer.Option(
        metavar="CAP|off|none",
        help="Bulk emails that one contact receives at most, for example `3 per 7 days`.",
        show_default=False,
    ),
]
ReplyForwardTo = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS|none", help="Address that replies are forwarded to.", show_default=False),
]
SecondFactor = Annotated[
    str | None,
    typer.Option(
        "--require-second-factor",
        metavar="yes|no",
        help="Whether users need two-factor authentication.",
        show_default=False,
    ),
]
ApprovalOver = Annotated[
    str | None,
    typer.Option(
        metavar="N|none",
        help="A send to more recipients than this needs the approval of a second person.",
        show_default=False,
    ),
]

_NUMBERS = ("approval_over", "max_in_flight", "rate_per_second", "rate_per_hour", "daily_limit", "interval_ms")
_YES_NO = {"yes": True, "no": False}


@app.command()
def create(
    name: Name,
    *,
    weight: Weight = None,
    max_in_flight: InFlight = None,
    rate_per_second: PerSecond = None,
    rate_per_hour: PerHour = None,
    daily_limit: PerDay = None,
    working_hours: Hours = None,
    timezone: Zone = None,
    warmup_since: Warmup = None,
    interval_ms: Interval = None,
    one_at_a_time: Alone = None,
    tracking: Tracking = None,
    tracking_host: TrackingHost = None,
    guard_rails: GuardRails = None,
    frequency_cap: FrequencyCap = None,
    reply_forward_to: ReplyForwardTo = None,
    requires_second_factor: SecondFactor = None,
    approval_over: ApprovalOver = None,
) -> None:
    """Create a tenant: a company with its own data, keys and limits."""
    given = _changes(locals())

    async def work(at: Installation) -> Tenant:
        return await tenants.create(at.database, at.clock, name, actor=CONSOLE, **given)

    created = run(work, creates=True)
    out.print(
        f"Created the tenant {created.name}. Create an API key with `mailwright key create --tenant {created.name}`."
    )


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List all tenants."""

    async def work(at: Installation) -> list[Tenant]:
        return await tenants.list_all(at.database)

    found = run(work)
    if as_json:
        print_json([TenantResponse.model_validate(tenant).to_dict() for tenant in found])
        return
    columns = ("Tenant!", "Weight#", "In flight#", "/s#", "/hour#", "/day#", "Hours!", "Zone!", "Created!")
    rows = (
        (
            tenant.name,
            tenant.weight,
            tenant.max_in_flight,
            tenant.rate_per_second,
            tenant.rate_per_hour,
            tenant.daily_limit,
            tenant.working_hours,
            tenant.timezone,
            clock_time(tenant.created_at)[:10],
        )
        for tenant in found
    )
    print_rows(columns, rows, nothing="There are no tenants.")


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show a tenant and the limits that apply to it: its own limits, or else those from the settings."""

    async def work(at: Installation) -> tuple[Tenant, Limits]:
        return await find_tenant(at, name), _defaults(at)

    _print(*run(work), as_json=as_json)


@app.command()
def edit(
    name: Name,
    *,
    weight: Weight = None,
    max_in_flight: InFlight = None,
    rate_per_second: PerSecond = None,
    rate_per_hour: PerHour = None,
    daily_limit: PerDay = None,
    working_hours: Hours = None,
    timezone: Zone = None,
    warmup_since: Warmup = None,
    interval_ms: Interval = None,
    one_at_a_time: Alone = None,
    tracking: Tracking = None,
    tracking_host: TrackingHost = None,
    guard_rails: GuardRails = None,
    frequency_cap: FrequencyCap = None,
    reply_forward_to: ReplyForwardTo = None,
    requires_second_factor: SecondFactor = None,
    approval_over: ApprovalOver = None,
) -> None:
    """Edit a tenant's weight and limits. Options that are not given stay as they are. Takes effect within a second."""
    changes = _changes(locals())
    if not changes:
        raise typer.BadParameter("give at least one option, for example --rate-per-hour 500 or --rate-per-hour none")

    async def work(at: Installation) -> tuple[Tenant, Limits]:
        return await tenants.change(at.database, name, actor=CONSOLE, clock=at.clock, **changes), _defaults(at)

    _print(*run(work), as_json=False)


def _changes(options: Mapping[str, Any]) -> TenantChanges:
    given = {key: value for key, value in options.items() if key != "name" and value is not None}
    return cast("TenantChanges", {key: _value(key, value) for key, value in given.items()})


def _value(name: str, value: Any) -> Any:
    if name == "requires_second_factor":
        if value not in _YES_NO:
            raise typer.BadParameter(f"{value!r} is not yes or no", param_hint="--require-second-factor")
        return _YES_NO[value]
    if value == "none":
        return None
    if name in _NUMBERS:
        try:
            return int(value)
        except ValueError as error:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"{value!r} is not a number or `none`", param_hint=option) from error
    if name == "one_at_a_time":
        if value not in _YES_NO:
            raise typer.BadParameter(f"{value!r} is not yes, no or none", param_hint="--one-at-a-time")
        return _YES_NO[value]
    return value


def _defaults(at: Installation) -> Limits:
    """Return the default limits, for tenants without their own limits."""
    from mailwright.app.limits import default_limits  # noqa: PLC0415 - slow to import

    return default_limits(at.settings)


def _print(tenant: Tenant, defaults: Limits, *, as_json: bool) -> None:
    if as_json:
        print_json(TenantResponse.model_validate(tenant).to_dict())
        return
    made = table("Tenant!", tenant.name)
    made.add_row("id", str(tenant.id))
    made.add_row("weight", str(tenant.weight))
    made.add_row("messages in flight", _limit_text(tenant.max_in_flight))
    for label, name in (
        ("per second", "rate_per_second"),
        ("interval (ms)", "interval_ms"),
        ("one at a time", "one_at_a_time"),
        ("per hour", "rate_per_hour"),
        ("per day", "daily_limit"),
        ("working hours", "working_hours"),
        ("time zone", "timezone"),
        ("warm-up since", "warmup_since"),
        ("frequency cap", "frequency_cap"),
    ):
        own = getattr(tenant, name)
        made.add_row(
            label, _limit_text(own) if own is not None else f"{_limit_text(getattr(defaults, name))} (settings)"
        )
    made.add_row("guard rails", _guard_rails_text(tenant.guard_rails))
    made.add_row("tracking", tenant.tracking or "not restricted")
    made.add_row("tracking host", tenant.tracking_host or "the public URL")
    made.add_row("replies forwarded to", tenant.reply_forward_to or "the address in the settings")
    made.add_row("two-factor authentication", "required" if tenant.requires_second_factor else "optional")
    over = tenant.approval_over
    made.add_row("approvals", "none" if over is None else f"sends with more than {over:,} recipients")
    made.add_row("created", zone_time(tenant.created_at))
    out.print(made)


def _limit_text(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _guard_rails_text(stored: str | None) -> str:
    """Return the tenant's own thresholds, one per line."""
    own = GuardRailSettings.model_validate_json(stored or "{}").model_dump(exclude_none=True)
    lines = [f"{name.removesuffix('_percent').replace('_', ' ')}: {_threshold(name, own[name])}" for name in own]
    return "\n".join(lines) or "those of the settings"


def _threshold(name: str, value: Any) -> str:
    return f"{value:g} %" if name.endswith("_percent") else str(value).replace("_", " ")
