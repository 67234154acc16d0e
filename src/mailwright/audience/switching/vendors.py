"""The export files of other products: which contacts they contain, and which columns are not imported."""

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass


class Vendor(StrEnum):
    LISTMONK = "listmonk"
    MAILCHIMP = "mailchimp"
    SENDGRID = "sendgrid"
    MAILWRIGHT = "mailwright"

    @property
    def label(self) -> str:
        """The name as the product writes it."""
        return {"mailchimp": "Mailchimp", "sendgrid": "SendGrid", "mailwright": "Mailwright"}.get(self, self.value)


class MemberStatus(StrEnum):
    """The status of a contact in another product, from weak to strong. The strongest of several rows counts."""

    SUBSCRIBED = "subscribed"
    LEFT_LIST = "unsubscribed_from_list"  # only from the list that the files are about
    UNSUBSCRIBED = "unsubscribed"
    COMPLAINED = "complained"
    BOUNCED = "bounced"


def strongest(statuses: Collection[MemberStatus]) -> MemberStatus:
    return max(statuses, key=list(MemberStatus).index)


@dataclass(frozen=True, slots=True)
class VendorFormat:
    """How to read the exports of a vendor. Titles are lower-case."""

    statuses: Mapping[str, MemberStatus] | None = None  # the values of the column `status`
    ignored: Collection[str] = ()
    json_column: str | None = None  # a JSON object whose members become attributes
    lists_column: str | None = None
    snooze_column: str | None = None
    # Patterns in the file name and in the titles that identify the status of the contacts in a file.
    names: Sequence[tuple[str, MemberStatus]] = ()
    titles: Mapping[str, MemberStatus] | None = None
    # Contacts who unsubscribed from one list look like subscribers, so they must be in a separate file.
    hides_unsubscribed: bool = False
    # Names of files with contacts who never subscribed, and why they are not imported.
    refused_names: Mapping[str, str] | None = None


FORMATS: Final = {
    Vendor.LISTMONK: VendorFormat(
        statuses={
            "enabled": MemberStatus.SUBSCRIBED,
            "disabled": MemberStatus.UNSUBSCRIBED,
            "blocklisted": MemberStatus.UNSUBSCRIBED,
            "blacklisted": MemberStatus.UNSUBSCRIBED,
        },
        ignored=("uuid", "created_at", "updated_at", "id"),
        json_column="attributes",
        hides_unsubscribed=True,
    ),
    Vendor.MAILCHIMP: VendorFormat(
        ignored=(
            "member_rating", "optin_time", "optin_ip", "confirm_time", "confirm_ip", "latitude", "longitude", "gmtoff",
            "dstoff", "last_changed", "leid", "euid", "notes", "unsub_time", "unsub_campaign_title",
            "unsub_campaign_id", "unsub_reason", "unsub_reason_other", "clean_time", "clean_campaign_title",
            "clean_campaign_id",
        ),
        titles={"unsub_time": MemberStatus.UNSUBSCRIBED, "clean_time": MemberStatus.BOUNCED},
        names=(
            ("unsubscribed", MemberStatus.UNSUBSCRIBED),
            ("cleaned", MemberStatus.BOUNCED),
            ("subscribed", MemberStatus.SUBSCRIBED),
        ),
        refused_names={"nonsubscribed": "These contacts never subscribed at Mailchimp."},
    ),
    Vendor.SENDGRID: VendorFormat(
        ignored=("contact_id", "created_at", "updated_at", "phone_number_id", "created", "reason", "ip"),
        names=(
            ("spam", MemberStatus.COMPLAINED),
            ("unsubscribe", MemberStatus.UNSUBSCRIBED),
            ("suppression_group", MemberStatus.UNSUBSCRIBED),
            ("bounce", MemberStatus.BOUNCED),
            ("invalid", MemberStatus.BOUNCED),
        ),
        titles={"contact_id": MemberStatus.SUBSCRIBED},
        refused_names={"block": "SendGrid's blocks are temporary. Leave this file out."},
    ),
    Vendor.MAILWRIGHT: VendorFormat(
        statuses={
            "active": MemberStatus.SUBSCRIBED,
            "unsubscribed": MemberStatus.UNSUBSCRIBED,
            "bounced": MemberStatus.BOUNCED,
        },
        ignored=("created_at",),
        lists_column="lists",
        snooze_column="snoozed_until",
    ),
}  # fmt: skip


def status_of_file(vendor: Vendor, file: Path, titles: Sequence[str]) -> MemberStatus:
    """Return the status of all contacts in a file without a status column. Raise an error if it is unclear."""
    format_ = FORMATS[vendor]
    name, plain = _plain(file.stem), {title.strip().lower() for title in titles}
    for part, reason in (format_.refused_names or {}).items():
        if part in name:
            raise InvalidInput(f"{file.name}: {reason}", field="file")
    for title, status in (format_.titles or {}).items():
        if title in plain:
            return status
    for part, status in format_.names:
        if part in name:
            return status
    if format_.statuses is not None:
        return MemberStatus.SUBSCRIBED
    raise InvalidInput(
        f"{file.name}: it is not clear whether these contacts may get email. State whether its contacts "
        "subscribed, unsubscribed, bounced or complained.",
        field="file",
    )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.lower())
