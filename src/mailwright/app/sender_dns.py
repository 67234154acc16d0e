"""Check SPF, DKIM and DMARC of the sender's domain in DNS."""

from collections.abc import AsyncIterator

from mailwright.app.default_sender import dkim_key
from mailwright.app.dns_lookup import DnsUnavailable, Lookup, make_lookup
from mailwright.app.spf import find_spf_problem, spf_advice, spf_records
from mailwright.content.headers import parse_mailbox
from mailwright.domain import address
from mailwright.domain.dkim_record import dns_tags, find_dkim_problem
from mailwright.domain.dmarc_record import dmarc_records, find_dmarc_problem
from mailwright.domain.errors import MailwrightError
from mailwright.domain.findings import Finding, TxtRecord, ok, problem, warning
from mailwright.ops.settings import Settings

LOCAL = ("localhost", ".localhost", ".local", ".test", ".invalid", ".example", ".internal")


def is_public_domain(sender: str) -> bool:
    """Return whether the domain of the sender can exist on the internet."""
    return not address.domain_of(parse_mailbox(sender).address).endswith(LOCAL)


async def check_sender(settings: Settings, look_up: Lookup | None = None) -> AsyncIterator[Finding]:
    """Check the sender in the settings. `look_up` replaces the DNS servers in the settings."""
    look_up = look_up or make_lookup(settings.dns_servers)
    domain = address.domain_of(parse_mailbox(settings.sender).address)
    if domain.endswith(LOCAL):
        summary = f"{domain} is not a public domain, so SPF, DKIM and DMARC are not checked"
        yield warning("sender", summary, "set MAILWRIGHT_FROM to an address of your domain")
        return
    # Receivers check SPF for the envelope sender's domain.
    envelope = address.domain_of(settings.bounce_address) if settings.bounce_address else domain
    for name, check in (
        ("spf", _spf(settings, envelope, look_up)),
        ("dkim", _dkim(settings, domain, look_up)),
        ("dmarc", _dmarc(domain, look_up)),
    ):
        try:
            yield await check
        except DnsUnavailable:
            yield warning(name, "unknown: DNS does not respond", "run the check on a machine with network access")


async def _spf(settings: Settings, domain: str, look_up: Lookup) -> Finding:
    advice = spf_advice([settings], domain)
    found = await look_up(domain, "TXT")
    records = spf_records(found)
    if not records and not advice.is_needed:
        return ok("spf", f"{domain} needs no SPF record: {', '.join(advice.own_return_path)} has its own return path")
    if not records:
        missing = TxtRecord(domain, advice.value) if advice.value else None
        text = f'publish a TXT record "{missing.value}"' if missing else f"publish an SPF record. {advice.hint}"
        return problem("spf", f"{domain} has no SPF record", text, missing)
    wrong = await find_spf_problem(domain, advice.value, found, look_up)
    if wrong is not None and (advice.is_needed or len(records) > 1):
        text = f"the record must have {' '.join(advice.mechanisms)}" if advice.value else advice.hint or "correct it"
        return problem("spf", wrong.rstrip("."), text)
    return ok("spf", f"{domain}: {records[0]}")


async def _dkim(settings: Settings, domain: str, look_up: Lookup) -> Finding:
    try:
        key = dkim_key(settings)
    except MailwrightError as error:
        return problem("dkim", str(error), "correct the DKIM settings")
    if key is None:
        return warning(
            "dkim",
            "messages are not signed",
            "create a key in the dashboard under Settings, Default domain, unless your provider signs",
        )
    name, wanted = f"{key.selector}._domainkey.{key.domain}", key.record()
    found = await look_up(name, "TXT")
    wrong = find_dkim_problem(name, wanted, found) if found else f"{name} does not exist"
    if wrong is None:
        return ok("dkim", f"{name} publishes the configured key ({key.algorithm})")
    summary = f"{wrong.rstrip('.')}, so signatures fail verification"
    return problem("dkim", summary, "publish the TXT record of the configured key", TxtRecord(name, wanted))


async def _dmarc(domain: str, look_up: Lookup) -> Finding:
    name = f"_dmarc.{domain}"
    found = await look_up(name, "TXT")
    if not found:
        missing = TxtRecord(name, f"v=DMARC1; p=none; rua=mailto:dmarc@{domain}")
        advice = 'publish TXT "v=DMARC1; p=none; rua=mailto:…"'
        return problem("dmarc", f"{name} does not exist", advice, missing)
    if (wrong := find_dmarc_problem(name, found)) is not None:
        return problem("dmarc", wrong.rstrip("."), "correct the record, for example v=DMARC1; p=none; rua=mailto:…")
    [record] = dmarc_records(found)
    return ok("dmarc", f"{name}: policy {(dns_tags(record) or {})['p']}")
