"""DMARC aggregate reports: the results of a domain's email at receivers, and the policy that they justify."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recipient_providers import RecipientProvider, domains_of

# A stricter policy needs reports of this many days, this many reporters and this many messages.
POLICY_DAYS: Final = 14
POLICY_REPORTERS: Final = 2
POLICY_MESSAGES: Final = 100
# The largest share of messages that fail, before each step.
MAX_FAILING: Final[Mapping[str, float]] = {"none": 0.02, "quarantine": 0.01}
NEXT_POLICY: Final[Mapping[str, str]] = {"none": "quarantine", "quarantine": "reject"}


class Disposition(StrEnum):
    """What the receiver did with the messages."""

    NONE = "none"  # delivered
    QUARANTINE = "quarantine"
    REJECT = "reject"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DkimResult:
    domain: str
    selector: str  # empty if the report does not name it
    result: str


@dataclass(frozen=True, slots=True)
class DmarcRow:
    """Messages from one source with the same results.

    `dkim` and `spf` are true if the check passed and is aligned with the From domain.
    """

    source_ip: str
    messages: int
    disposition: Disposition
    dkim: bool
    spf: bool
    header_from: str
    envelope_to: str | None = None  # the recipients' domain; few reporters name it
    dkim_results: tuple[DkimResult, ...] = ()
    spf_result: str = ""
    reasons: tuple[str, ...] = ()  # why the receiver did not follow the policy, for example `forwarded`

    @property
    def is_aligned(self) -> bool:
        return self.dkim or self.spf

    def is_signed_by(self, selectors: frozenset[str]) -> bool | None:
        """Return whether one of these keys signed the messages; None if that is unknown.

        It is unknown if there are no keys, or if the report does not name selectors.
        """
        if not selectors:
            return None
        passed = [each for each in self.dkim_results if each.result == "pass"]
        if any(each.selector in selectors for each in passed):
            return True
        return None if any(not each.selector for each in passed) else False


@dataclass(frozen=True, slots=True)
class DmarcReport:
    """A report of one receiver about one domain."""

    reporter: str
    report_id: str
    begins_at: Instant
    ends_at: Instant
    domain: str  # whose policy applied
    policy: str  # none, quarantine or reject
    is_partial: bool  # whether the policy applied to some messages only: `pct` below 100, or testing
    rows: tuple[DmarcRow, ...]
    skipped_rows: int = 0  # rows that could not be read
    row_problem: str = ""  # why the first of them could not be read

    @property
    def skipped_text(self) -> str | None:
        """Return a sentence with the number of unreadable rows and the first reason; None if all were read."""
        if not self.skipped_rows:
            return None
        rows = "1 row was" if self.skipped_rows == 1 else f"{self.skipped_rows:,} rows were"
        return f"{rows} skipped, because {self.row_problem}."


@dataclass(frozen=True, slots=True)
class RefusedReport:
    """A file or an email that is not stored, and why, as a sentence."""

    reason: str
    name: str = ""  # of the file
    reporter: str = ""
    domain: str = ""


class NotCompared(StrEnum):
    """Why a report is not compared with the sent messages."""

    RECEIVERS_UNKNOWN = "receivers_unknown"
    TOO_OLD = "too_old"
    PERIOD_UNKNOWN = "period_unknown"  # It ends when it begins.


_WHY_NOT: Final = {
    NotCompared.RECEIVERS_UNKNOWN: "its reports do not say which recipients' domains they are about",
    NotCompared.TOO_OLD: "its reports arrived too long after the messages",
    NotCompared.PERIOD_UNKNOWN: "its reports do not say which time they cover",
}


@dataclass(frozen=True, slots=True)
class ReporterComparison:
    """The reports of one reporter, and the number of messages that Mailwright sent to its domains in the same time.

    `compared` counts the aligned messages of the reports for which `sent` is known. `unsigned` counts those of them
    without a signature by a key of Mailwright.
    """

    reporter: str
    reports: int
    messages: int
    aligned: int
    last_at: Instant
    sent: int | None
    compared: int
    unsigned: int
    not_compared: NotCompared | None

    @property
    def sentence(self) -> str:
        if self.sent is None:
            reason = _WHY_NOT[self.not_compared or NotCompared.RECEIVERS_UNKNOWN]
            text = f"{self.reporter} saw {_aligned(self.aligned)}, which cannot be compared: {reason}."
            return f"{text}{self._failing_text}"
        part = "" if self.compared == self.aligned else " in the reports that can be compared"
        seen = f"{self.reporter} saw {_aligned(self.compared)}{part}, Mailwright sent {self.sent:,}"
        if self.compared == self.sent:
            return f"{seen}: the numbers agree.{self._failing_text}"
        if self.compared < self.sent:
            missing = self.sent - self.compared
            where = f"{_are(missing)} not in its reports"
            where = f"failed DMARC, or {where}" if self._failing_text else where
            return f"{seen}: {missing:,} {where}.{self._failing_text}"
        surplus = self.compared - self.sent
        extra = f"{surplus:,} {_are(surplus)} not from Mailwright"
        if hosts_others(self.reporter):
            extra += f", or went to domains that {self.reporter} hosts"
        return f"{seen}: {extra}.{self._unsigned_text}{self._failing_text}"

    @property
    def _failing_text(self) -> str:
        failing = self.messages - self.aligned
        messages = "message" if failing == 1 else "messages"
        return f" {failing:,} other {messages} with your domain in From failed DMARC." if failing else ""

    @property
    def _unsigned_text(self) -> str:
        were = "was" if self.unsigned == 1 else "were"
        return f" {self.unsigned:,} {were} not signed with a key in Mailwright." if self.unsigned else ""


def _aligned(number: int) -> str:
    return f"{number:,} aligned {'message' if number == 1 else 'messages'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


@dataclass(frozen=True, slots=True)
class PolicyEvidence:
    """The evidence in a domain's reports for a policy. `policies` are the policies that the reports contain."""

    policy: str | None
    policies: frozenset[str]
    is_partial: bool
    days: int
    reporters: int
    messages: int
    failing: int


@dataclass(frozen=True, slots=True)
class PolicyAdvice:
    """The next policy if the reports justify it, and a sentence that says why, or what is missing."""

    policy: str | None
    sentence: str


def suggest_policy(found: PolicyEvidence) -> PolicyAdvice:
    """Suggest a stricter policy only if the reports show that it would harm almost no messages."""
    if found.policy is None:
        return PolicyAdvice(None, "No reports yet.")
    if found.policy not in NEXT_POLICY:
        return PolicyAdvice(None, f"The policy is already {found.policy}.")
    wanted = NEXT_POLICY[found.policy]
    if found.is_partial or found.policies != {found.policy}:
        reason = "the current policy did not apply to all messages of the period"
        return PolicyAdvice(None, f"Too early for p={wanted}: {reason}.")
    missing = [
        f"{have:,} of {need:,} {noun}"
        for have, need, noun in (
            (found.days, POLICY_DAYS, "days with reports"),
            (found.reporters, POLICY_REPORTERS, "reporters"),
            (found.messages, POLICY_MESSAGES, "messages"),
        )
        if have < need
    ]
    if missing:
        return PolicyAdvice(None, f"Too early for p={wanted}: {', '.join(missing)}.")
    share, allowed = found.failing / found.messages, MAX_FAILING[found.policy]
    if share > allowed:
        return PolicyAdvice(
            None,
            f"Keep p={found.policy}: {100 * share:.1f} % of the messages fail, and at most {100 * allowed:g} % may. "
            "Find the sources below that are yours, and sign their email with DKIM.",
        )
    return PolicyAdvice(
        wanted,
        f"p={wanted} is justified: in {found.days} days, {100 * share:.1f} % of {found.messages:,} messages failed. "
        "Make sure that the failing sources below are not yours.",
    )


# The domains that a reporter receives email for, by a part of its name. Large reporters also host domains of customers.
_RECEIVERS: Final[Sequence[tuple[str, tuple[str, ...]]]] = (
    ("google", domains_of(RecipientProvider.GMAIL)),
    ("yahoo", domains_of(RecipientProvider.YAHOO)),
    ("outlook.com", domains_of(RecipientProvider.OUTLOOK)),
    ("mail.ru", ("mail.ru", "bk.ru", "inbox.ru", "list.ru", "internet.ru")),
    ("comcast", ("comcast.net",)),
)
# Reporters that also report about domains of their customers, without naming them.
_HOSTS: Final = ("google", "yahoo", "mail.ru")
MAX_RECEIVERS: Final = 200


def receivers_of(report: DmarcReport) -> tuple[str, ...]:
    """Return the recipients' domains that a report is about; empty if they are unknown."""
    named = {row.envelope_to for row in report.rows}
    if named and None not in named:
        return tuple(sorted(each for each in named if each))[:MAX_RECEIVERS] if len(named) <= MAX_RECEIVERS else ()
    reporter = report.reporter.lower()
    return next((domains for part, domains in _RECEIVERS if part in reporter), ())


def hosts_others(reporter: str) -> bool:
    """Return whether the reporter also counts email to domains that it hosts for others."""
    return any(part in reporter.lower() for part in _HOSTS)
