"""The options of `mailwright campaign`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.tracking import TrackingMode

# Panels of the help page. Each is a table of its own, so that long option names are not cut off.
_AUDIENCE: Final = "Audience"
_LIMITS: Final = "Limits"
_SAFETY: Final = "Waves, guard rails and frequency cap"
_TEST: Final = "A/B test"


class ListedApproval(StrEnum):
    WAITING = ApprovalStatus.WAITING
    REJECTED = ApprovalStatus.REJECTED


CampaignId = Annotated[
    str, typer.Argument(metavar="ID", help="The campaign id that `campaign create` prints.", show_default=False)
]
Name = Annotated[str, typer.Option(metavar="NAME", help="The internal name.", show_default=False)]
Subject = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="The subject. May use variables: Hello {{ name }}.", show_default="the template's"
    ),
]
TemplateId = Annotated[
    str | None, typer.Option(metavar="ID", help="A template id instead of a file.", show_default=False)
]
TextFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The file of the text part.",
        show_default="derived from the HTML",
    ),
]
Lists = Annotated[
    list[str] | None,
    typer.Option(
        "--list",
        metavar="KEY",
        rich_help_panel=_AUDIENCE,
        help="A recipient list; can be repeated.",
        show_default=False,
    ),
]
Segment = Annotated[
    str | None,
    typer.Option(metavar="KEY", rich_help_panel=_AUDIENCE, help="Only members of this segment.", show_default=False),
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        rich_help_panel=_AUDIENCE,
        help='Only contacts that match, for example {"tag": "vip"}.',
        show_default=False,
    ),
]
ExcludeLists = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude-list",
        metavar="KEY",
        rich_help_panel=_AUDIENCE,
        help="Leave out subscribers of this list; can be repeated.",
        show_default=False,
    ),
]
ExcludeSegments = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude-segment",
        metavar="KEY",
        rich_help_panel=_AUDIENCE,
        help="Leave out this segment; can be repeated.",
        show_default=False,
    ),
]
Sender = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="FROM", help="The sender, for example `Acme <a@b.example>`.", show_default="MAILWRIGHT_FROM"
    ),
]
ReplyTo = Annotated[str | None, typer.Option(metavar="FROM", help="The Reply-To address.", show_default=False)]
SendTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Send time, for example 2027-01-15T08:00, in the tenant's time zone unless one is given.",
        show_default=False,
    ),
]
Tracking = Annotated[
    TrackingMode | None,
    typer.Option(
        metavar="MODE",
        help="off, anonymous or individual: how opens and clicks are recorded.",
        show_default="as the lists and the tenant allow",
    ),
]
Utm = Annotated[
    list[str] | None,
    typer.Option(metavar="N=V", help="A UTM parameter of the links: source, medium, campaign …", show_default=False),
]
Attach = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A file to attach to every email; can be repeated.",
        show_default=False,
    ),
]
Detach = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="An attachment to remove, by file name or id; can be repeated.", show_default=False
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--var", metavar="N=V", help="A variable with the same value for every recipient.", show_default=False
    ),
]
Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        rich_help_panel=_TEST,
        help="A variant of an A/B test: NAME or NAME=SUBJECT. Give two to five.",
        show_default=False,
    ),
]
TestPercent = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=_TEST,
        help="Share of the audience that receives the test variants, in percent.",
        show_default="20",
    ),
]
WaitMinutes = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_TEST, help="Duration of the test in minutes.", show_default="240"),
]
WinnerBy = Annotated[
    str | None,
    typer.Option(
        metavar="BY",
        rich_help_panel=_TEST,
        help="Choose the winner by clicks or opens, or yourself: manual.",
        show_default="clicks",
    ),
]
MinConfidence = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=_TEST,
        help="Required confidence that the winner is better, in percent.",
        show_default="95",
    ),
]
IfUndecided = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_TEST,
        help="The variant to send to the rest if no winner is clear.",
        show_default="wait for you",
    ),
]
PerSecond = Annotated[
    str | None,
    typer.Option(
        metavar="N", rich_help_panel=_LIMITS, help="Messages per second; none removes it.", show_default=False
    ),
]
PerHour = Annotated[
    str | None,
    typer.Option(
        metavar="N", rich_help_panel=_LIMITS, help="Messages per clock hour; none removes it.", show_default=False
    ),
]
PerDay = Annotated[
    str | None,
    typer.Option(metavar="N", rich_help_panel=_LIMITS, help="Messages per day; none removes it.", show_default=False),
]
Hours = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        rich_help_panel=_LIMITS,
        help="Working hours: 09:00-18:00, 22:00-06:00 or Mon-Fri 09:00-18:00, Sat 10:00-14:00.",
        show_default=False,
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE", rich_help_panel=_LIMITS, help="Time zone, for example Europe/Lisbon.", show_default=False
    ),
]
Warmup = Annotated[
    bool | None,
    typer.Option("--warmup/--no-warmup", rich_help_panel=_LIMITS, help="Increase the daily volume step by step."),
]
ReadersTime = Annotated[
    bool | None,
    typer.Option("--readers-time/--senders-time", rich_help_panel=_LIMITS, help="Time zone of the working hours."),
]
Interval = Annotated[
    str | None,
    typer.Option(
        metavar="MS",
        rich_help_panel=_LIMITS,
        help="Minimum milliseconds between the starts of two sends.",
        show_default=False,
    ),
]
Waves = Annotated[
    str | None,
    typer.Option(
        metavar="%,%",
        rich_help_panel=_SAFETY,
        help="Send in waves, for example 1,10: then everyone else.",
        show_default="all at once",
    ),
]
WaveMinutes = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=_SAFETY, help="Minutes between two waves.", show_default="240"),
]
GuardRails = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        rich_help_panel=_SAFETY,
        help='Thresholds that stop it, such as {"minMessages": 50}.',
        show_default="the tenant's",
    ),
]
IgnoreCap = Annotated[
    str | None,
    typer.Option(
        metavar="WHY",
        rich_help_panel=_SAFETY,
        help="Send regardless of the tenant's frequency cap, for this reason.",
        show_default=False,
    ),
]
Alone = Annotated[
    bool | None,
    typer.Option("--one-at-a-time/--side-by-side", rich_help_panel=_LIMITS, help="Send one message at a time."),
]
