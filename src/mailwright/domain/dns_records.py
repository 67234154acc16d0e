"""DNS records of a sender domain, and the result of the check of each."""

from enum import StrEnum

from mailwright.domain.lazy_dataclass import dataclass


class RecordPurpose(StrEnum):
    DKIM = "dkim"
    SPF = "spf"
    DMARC = "dmarc"
    DMARC_REPORTS = "dmarc_reports"  # Another domain agrees to receive the reports.
    REPLIES = "replies"  # The mail server of the domain itself, which receives replies.
    RETURN_PATH = "return_path"
    TRACKING = "tracking"


class DnsState(StrEnum):
    OK = "ok"
    MISSING = "missing"
    WRONG = "wrong"
    UNKNOWN = "unknown"  # DNS gave no usable answer, or only the owner of the domain can tell.


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """A record to publish."""

    purpose: RecordPurpose
    type: str  # TXT, MX or CNAME
    name: str
    value: str  # Empty if only the owner of the domain can know it: see `hint`.
    is_required: bool = False  # Whether the domain is verified only with this record.
    hint: str = ""  # What to enter, as a sentence.


@dataclass(frozen=True, slots=True)
class DnsResult:
    """A record, and the answer of DNS."""

    record: DnsRecord
    state: DnsState
    detail: str  # One sentence.
