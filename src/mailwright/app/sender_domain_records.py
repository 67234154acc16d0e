"""The DNS records of a sender domain: SPF, DKIM, DMARC, the return path and tracked links, and their check."""

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from mailwright.app.dns_lookup import DnsUnavailable, Lookup
from mailwright.app.sender_dns import LOCAL
from mailwright.app.spf import SpfAdvice, find_spf_problem, spf_records
from mailwright.domain import address
from mailwright.domain.dkim_record import find_dkim_problem, is_testing
from mailwright.domain.dkim_rotation import DomainKey, KeyState
from mailwright.domain.dmarc_record import dmarc_advice, dmarc_records, find_dmarc_problem
from mailwright.domain.dns_records import DnsRecord, DnsResult, DnsState, RecordPurpose
from mailwright.domain.network import is_loopback_address
from mailwright.domain.sender_domains import is_same_or_below
from mailwright.ops.settings import Settings
from mailwright.outbox.sender_domains import SenderDomain, key_name

# The timeout of a check. All lookups of a domain run at once, but some are repeated for each parent domain.
CHECK_SECONDS: Final = 10.0
RETURN_PATH_LABEL: Final = "bounce"
TRACKING_LABEL: Final = "links"
MX_HINT: Final = (
    "The mail server that receives email for this domain. If the domain has mailboxes, keep the record that it has; "
    "otherwise the provider of your mailboxes names it."
)
# The maximum number of characters that a message quotes from a DNS record of somebody else.
_QUOTED: Final = 120


def return_path_domain(settings: Settings, domain: str) -> str | None:
    """Return the domain of the envelope sender; None if the installation does not receive bounces for others."""
    if settings.return_path_host is None or settings.bounce_address is None:
        return None
    return f"{RETURN_PATH_LABEL}.{domain}"


def dmarc_address(settings: Settings, domain: str) -> str:
    """Return the address for DMARC reports, in the mailbox that Mailwright reads if one is configured.

    An address of the domain itself is preferred, because any other domain must allow the reports with a DNS record.
    """
    bounces = settings.bounce_address
    if bounces is not None and (name := return_path_domain(settings, domain)) is not None:
        return f"{bounces.rpartition('@')[0]}@{name}"
    return bounces if bounces is not None and settings.bounce_mailbox is not None else f"dmarc@{domain}"


def records_of(
    domain: SenderDomain, settings: Settings, spf: SpfAdvice, tracking_host: str | None = None
) -> list[DnsRecord]:
    """Return the records to publish, the required ones first. A retired key needs its record for some days only."""
    dkim = [_dkim_record(key, domain) for key in domain.keys if key.state is not KeyState.RETIRED]
    reports = dmarc_address(settings, domain.domain)
    records = [
        *dkim,
        *_spf_records(RecordPurpose.SPF, domain.domain, spf),
        DnsRecord(
            RecordPurpose.DMARC,
            "TXT",
            f"_dmarc.{domain.domain}",
            f"v=DMARC1; p=none; rua=mailto:{reports}",
        ),
        *_report_records(domain.domain, address.domain_of(reports)),
        DnsRecord(RecordPurpose.REPLIES, "MX", domain.domain, "", hint=MX_HINT),
    ]
    if (name := return_path_domain(settings, domain.domain)) is not None:
        records.append(DnsRecord(RecordPurpose.RETURN_PATH, "MX", name, f"10 {settings.return_path_host}"))
        records += _spf_records(RecordPurpose.RETURN_PATH, name, spf)
    if (target := _public_host(settings.public_url)) is not None:
        host = urlsplit(tracking_host or "").hostname or ""
        own = host if is_same_or_below(host, domain.domain) else f"{TRACKING_LABEL}.{domain.domain}"
        if own != target:
            records.append(DnsRecord(RecordPurpose.TRACKING, "CNAME", own, target))
    return records


async def check_records(records: Sequence[DnsRecord], look_up: Lookup) -> tuple[DnsResult, ...]:
    """Look up all records at once. A lookup that fails or takes too long gives an unknown result."""
    checks = [asyncio.ensure_future(_check(record, look_up)) for record in records]
    await asyncio.wait(checks, timeout=CHECK_SECONDS)
    results = []
    for record, check in zip(records, checks, strict=True):
        if check.done():
            results.append(check.result())
        else:
            check.cancel()
            results.append(_unknown(record, f"DNS did not answer within {CHECK_SECONDS:.0f} seconds"))
    return tuple(results)


def _dkim_record(key: DomainKey, domain: SenderDomain) -> DnsRecord:
    return DnsRecord(RecordPurpose.DKIM, "TXT", key_name(key, domain.domain), key.record, is_required=True)


def _spf_records(purpose: RecordPurpose, name: str, spf: SpfAdvice) -> list[DnsRecord]:
    return [DnsRecord(purpose, "TXT", name, spf.value, hint=spf.hint)] if spf.is_needed else []


def _report_records(domain: str, receiver: str) -> list[DnsRecord]:
    """Return the DNS record that lets another domain receive the reports (RFC 7489, section 7.1)."""
    if is_same_or_below(receiver, domain) or is_same_or_below(domain, receiver):
        return []
    return [DnsRecord(RecordPurpose.DMARC_REPORTS, "TXT", f"{domain}._report._dmarc.{receiver}", "v=DMARC1")]


def _public_host(url: str) -> str | None:
    host = urlsplit(url).hostname or ""
    is_public = "." in host and not host.endswith(LOCAL) and not host.replace(".", "").isdigit()
    return host if is_public and not is_loopback_address(host) else None


async def _check(record: DnsRecord, look_up: Lookup) -> DnsResult:
    try:
        if record.purpose is RecordPurpose.DMARC:
            return await _check_dmarc(record, look_up)
        found = await look_up(record.name, record.type)
        if record.purpose in _CHECKS:
            return _CHECKS[record.purpose](record, found)
        return _check_target(record, found) if record.type != "TXT" else await _check_spf(record, found, look_up)
    except DnsUnavailable as error:
        return _unknown(record, str(error))


def _check_dkim(record: DnsRecord, found: Sequence[str]) -> DnsResult:
    if not found:
        return _missing(record)
    if (wrong := find_dkim_problem(record.name, record.value, found)) is not None:
        return _wrong(record, wrong if wrong.endswith(".") else f"{wrong}: {_shown(found)}")
    if is_testing(found[0]):
        advice = "Its t=y says that you only test DKIM, so receivers may ignore the signatures. Remove t=y."
        return _ok(record, f"{record.name} publishes the key. {advice}")
    return _ok(record, f"{record.name} publishes the key.")


async def _check_spf(record: DnsRecord, found: Sequence[str], look_up: Lookup) -> DnsResult:
    """Check the SPF record. If the correct value is unknown, only the owner of the domain can check it."""
    policies = spf_records(found)
    if not policies:
        return _missing(record, "SPF record")
    wrong = await find_spf_problem(record.name, record.value, found, look_up)
    if wrong is not None:
        return _wrong(record, wrong if wrong.endswith(".") else f"{wrong}: {_shown(policies)}")
    if record.hint:
        return _unknown(record, f"Mailwright cannot know whether this allows all servers: {_shown(policies)}")
    return _ok(record, f"{record.name} allows the provider: {_shown(policies)}")


async def _check_dmarc(record: DnsRecord, look_up: Lookup) -> DnsResult:
    """Check the domain and then its parents, whose policy applies to subdomains too."""
    labels = record.name.removeprefix("_dmarc.").split(".")
    for start in range(min(len(labels) - 1, 4)):
        name = f"_dmarc.{'.'.join(labels[start:])}"
        texts = await look_up(name, "TXT")
        # A wildcard record of a parent domain also matches this name, but is not a DMARC record.
        if not any("dmarc" in text.lower() for text in texts):
            continue
        if (wrong := find_dmarc_problem(name, texts)) is not None:
            return _wrong(record, wrong if wrong.endswith(".") else f"{wrong}: {_shown(texts)}")
        policies = dmarc_records(texts)
        advice = dmarc_advice(policies[0], is_parent=start > 0)
        return _ok(record, " ".join(filter(None, (f"{name}: {_shown(policies)}.", advice))))
    return _missing(record, "DMARC record")


def _check_reports(record: DnsRecord, found: Sequence[str]) -> DnsResult:
    if dmarc_records(found):
        return _ok(record, f"{record.name} allows the reports.")
    if found:
        return _wrong(record, f"The TXT record {record.name} has another value: {_shown(found)}")
    return _missing(record)


def _check_replies(record: DnsRecord, found: Sequence[str]) -> DnsResult:
    """Check that the domain of the From address receives email: replies go there, and some receivers require it."""
    servers = [text for text in found if text.split()[-1:] not in ([], ["."])]
    if any("your-mail-server" in text for text in servers):
        return _wrong(record, f"The MX record {record.name} has a placeholder: {_shown(servers)}")
    if servers:
        return _ok(record, f"{record.name} receives replies at {_shown(servers)}.")
    if found:  # The null MX of RFC 7505.
        return _wrong(record, f"{record.name} says that it receives no email, so replies bounce.")
    return _missing(record)


_CHECKS: Final = {
    RecordPurpose.DKIM: _check_dkim,
    RecordPurpose.DMARC_REPORTS: _check_reports,
    RecordPurpose.REPLIES: _check_replies,
}


def _check_target(record: DnsRecord, found: Sequence[str]) -> DnsResult:
    """Check an MX or CNAME record. An MX record may have any preference."""
    wanted = record.value.split()[-1].lower().removesuffix(".")
    if any(text.split()[-1:] == [wanted] for text in found):
        return _ok(record, f"{record.name} points to {wanted}.")
    if found:
        return _wrong(record, f"The {record.type} record {record.name} points to {_shown(found)} instead of {wanted}.")
    return _missing(record)


def _ok(record: DnsRecord, detail: str) -> DnsResult:
    return DnsResult(record, DnsState.OK, detail)


def _wrong(record: DnsRecord, detail: str) -> DnsResult:
    return DnsResult(record, DnsState.WRONG, detail)


def _missing(record: DnsRecord, kind: str | None = None) -> DnsResult:
    text = f"The {kind or f'{record.type} record'} {record.name} does not exist."
    if kind is not None:
        text = f"{record.name} has no {kind}."
    return DnsResult(record, DnsState.MISSING, text)


def _unknown(record: DnsRecord, reason: str) -> DnsResult:
    return DnsResult(record, DnsState.UNKNOWN, f"{record.name}: {reason}.")


def _shown(texts: Sequence[str]) -> str:
    """Quote the beginning of untrusted text, without control characters and changes of the text direction."""
    text = "".join(character if character.isprintable() else "�" for character in texts[0][: _QUOTED + 1])
    return f"{text[:_QUOTED]}…" if len(text) > _QUOTED else text
