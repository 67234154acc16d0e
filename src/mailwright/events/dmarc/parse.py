"""Parse DMARC aggregate reports (RFC 7489, RFC 9990 and earlier drafts), including common deviations of reporters."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from mailwright.domain import address
from mailwright.domain.clock import DAY, Instant, to_instant
from mailwright.domain.dmarc import Disposition, DkimResult, DmarcReport, DmarcRow, RefusedReport
from mailwright.domain.sender_domains import is_same_or_below
from mailwright.domain.sender_policy import parse_domain
from mailwright.events.dmarc.unpack import UnusableFile, unpack
from mailwright.events.dmarc.xml import Element, parse_xml

MAX_ROWS: Final = 20_000
MAX_MESSAGES: Final = 1_000_000_000  # of one row
MAX_NAME: Final = 200
MAX_RESULTS: Final = 20  # DKIM results of one row
MAX_DIGITS: Final = 20
MAX_SHOWN: Final = 40  # characters of a value that cannot be read
# Reports cover a day, some a week. The clock of a reporter may be wrong by some hours.
MAX_LENGTH: Final = 32 * DAY
CLOCK_TOLERANCE: Final = DAY
EARLIEST: Final[Instant] = 1_325_376_000_000  # 2012, when DMARC was published
POLICIES: Final = ("none", "quarantine", "reject")
_DELIVERED: Final = ("none", "pass")  # RFC 9990 writes `pass` for a message that passed


def parse_file(content: bytes, now: Instant, name: str = "") -> list[DmarcReport | RefusedReport]:
    """Parse a file with one or more reports. Reports that cannot be used are refused with a reason."""
    try:
        documents = unpack(content)
    except UnusableFile as error:
        return [_refused(f"The file cannot be read: {error}.", name)]
    return [parse_document(document, now, name) for document in documents]


def parse_document(document: bytes, now: Instant, name: str = "") -> DmarcReport | RefusedReport:
    try:
        root = parse_xml(document)
    except UnusableFile as error:
        return _refused(f"The file cannot be read: {error}.", name)
    if root.name != "feedback":
        return _refused("The file is not a DMARC aggregate report: its XML does not begin with `feedback`.", name)
    return _parse_feedback(root, now, name, hashlib.sha256(document).hexdigest())


def _parse_feedback(root: Element, now: Instant, name: str, digest: str) -> DmarcReport | RefusedReport:
    metadata, policy = root.first("report_metadata"), root.first("policy_published")
    reporter = _reporter(metadata)
    stated = policy.value("domain")
    domain = _domain(stated)
    problem = (
        "The report does not name its reporter."
        if not reporter
        else f"The report is not about a domain: {stated[:MAX_NAME]!r}."
        if domain is None
        else _date_problem(metadata, now)
    )
    records = root.all("record")
    if problem is None and len(records) > MAX_ROWS:
        problem = f"The report has more than {MAX_ROWS:,} rows."
    begins_at, ends_at = _dates(metadata)
    if problem is not None or domain is None or begins_at is None or ends_at is None:
        return RefusedReport(problem or "The report has no dates.", name[:MAX_NAME], reporter, domain or "")
    found = [_row(record, domain) for record in records]
    rows = [each for each in found if isinstance(each, DmarcRow)]
    problems = [f"row {number} {each}" for number, each in enumerate(found, 1) if isinstance(each, str)]
    return DmarcReport(
        reporter=reporter,
        report_id=metadata.value("report_id")[:MAX_NAME] or f"sha256:{digest}",
        begins_at=begins_at,
        ends_at=ends_at,
        domain=domain,
        policy=_policy(policy.value("p")),
        is_partial=_is_partial(policy),
        rows=tuple(rows),
        skipped_rows=len(problems),
        row_problem=next(iter(problems), ""),
    )


def _refused(reason: str, name: str) -> RefusedReport:
    return RefusedReport(reason, name[:MAX_NAME])


def _reporter(metadata: Element) -> str:
    """Return the name of the reporter, or the domain of its address if it has none."""
    return (metadata.value("org_name") or metadata.value("email").rpartition("@")[2])[:MAX_NAME]


def _domain(text: str) -> str | None:
    """Return a domain in ASCII lower case. Some reporters write an address instead."""
    try:
        return parse_domain(text.rpartition("@")[2].strip("<>. "))
    except address.InvalidAddress:
        return None


def _dates(metadata: Element) -> tuple[Instant | None, Instant | None]:
    return _instant(metadata.value("date_range", "begin")), _instant(metadata.value("date_range", "end"))


def _date_problem(metadata: Element, now: Instant) -> str | None:
    begins_at, ends_at = _dates(metadata)
    if begins_at is None or ends_at is None:
        return "The report has no dates, or dates that cannot be read."
    if ends_at < begins_at:
        return "The report ends before it begins."
    if ends_at > now + CLOCK_TOLERANCE:
        return "The report ends in the future."
    if begins_at < EARLIEST:
        return "The report begins before DMARC existed."
    if ends_at - begins_at > MAX_LENGTH:
        return f"The report covers more than {MAX_LENGTH // DAY} days."
    return None


def _instant(text: str) -> Instant | None:
    """Parse Unix seconds, as the standard requires, or an ISO time."""
    try:
        if text.replace(".", "", 1).isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
            return int(float(text)) * 1000
        parsed = datetime.fromisoformat(text[:40])
        return to_instant(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _policy(text: str) -> str:
    return text.lower() if text.lower() in POLICIES else "none"


def _is_partial(policy: Element) -> bool:
    percent = policy.value("pct")
    return policy.value("testing").lower() in ("y", "yes", "true") or (percent.isdecimal() and int(percent[:9]) < 100)


def _row(record: Element, domain: str) -> DmarcRow | str:
    """Return the row of a record, or why its address or its count cannot be read."""
    row, identifiers, results = record.first("row"), record.first("identifiers"), record.first("auth_results")
    count = row.value("count")
    address_text = row.value("source_ip").strip("[]")
    try:
        source = str(ip_address(address_text))
    except ValueError:
        return f"has no IP address but {address_text[:MAX_SHOWN]!r}"
    if "%" in address_text:  # A scope ID has any length, and no meaning outside its machine.
        return f"has an IP address with a scope, {address_text[:MAX_SHOWN]!r}"
    if not (count.isdecimal() and count.isascii()) or len(count) > MAX_DIGITS or not 0 < int(count) <= MAX_MESSAGES:
        return f"has the number of messages {count[:MAX_SHOWN]!r}"
    header_from = _domain(identifiers.value("header_from")) or domain
    evaluated = row.first("policy_evaluated")
    signatures = tuple(_dkim_results(results))
    return DmarcRow(
        source_ip=source,
        messages=int(count),
        disposition=_disposition(evaluated.value("disposition")),
        dkim=_passed(evaluated.value("dkim"), [(each.domain, each.result) for each in signatures], header_from),
        spf=_passed(evaluated.value("spf"), list(_spf_results(results)), header_from),
        header_from=header_from,
        envelope_to=_domain(identifiers.value("envelope_to")),
        dkim_results=signatures,
        spf_result=next((result for _, result in _spf_results(results)), ""),
        reasons=tuple(sorted({each.value("type").lower()[:40] for each in evaluated.all("reason")} - {""})),
    )


def _disposition(text: str) -> Disposition:
    word = text.lower()
    if word in _DELIVERED:
        return Disposition.NONE
    return Disposition(word) if word in POLICIES else Disposition.UNKNOWN


def _passed(evaluated: str, results: list[tuple[str, str]], header_from: str) -> bool:
    """Return whether a check passed and is aligned, as the report states or its detailed results show."""
    if evaluated:
        return evaluated.lower() == "pass"
    return any(result == "pass" and _is_aligned(domain, header_from) for domain, result in results)


def _is_aligned(one: str, other: str) -> bool:
    return bool(one) and (is_same_or_below(one, other) or is_same_or_below(other, one))


def _dkim_results(results: Element) -> Iterator[DkimResult]:
    for each in results.all("dkim")[:MAX_RESULTS]:
        selector = each.value("selector").lower()[:MAX_NAME]
        yield DkimResult(_domain(each.value("domain")) or "", selector, each.value("result").lower()[:40])


def _spf_results(results: Element) -> Iterator[tuple[str, str]]:
    for each in results.all("spf")[:MAX_RESULTS]:
        yield _domain(each.value("domain")) or "", each.value("result").lower()[:40]
