"""Check SPF, DKIM and DMARC of the sender's domain in DNS."""

from collections.abc import AsyncIterator, Awaitable, Callable

from mailwright.app.findings import Finding, TxtRecord, ok, problem, warning
from mailwright.domain import address
from mailwright.domain.errors import MailwrightError
from mailwright.ops.settings import Settings
from mailwright.pipeline.compose import parse_mailbox

# The timeout of one lookup. It is short, so that a machine without a network does not wait a minute for the result.
DNS_SECONDS = 2.0

# Returns the TXT records of a name, or raises `DnsUnavailable`.
TxtLookup = Callable[[str], Awaitable[list[str]]]

LOCAL = ("localhost", ".localhost", ".local", ".test", ".invalid", ".example", ".internal")


class DnsUnavailable(Exception):
    """DNS does not respond."""


async def look_up_txt(name: str) -> list[str]:
    import dns.asyncresolver  # noqa: PLC0415 - large, and only DNS checks need it
    import dns.exception  # noqa: PLC0415
    import dns.resolver  # noqa: PLC0415

    resolver = dns.asyncresolver.Resolver()
    try:
        answer = await resolver.resolve(name, "TXT", lifetime=DNS_SECONDS)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise DnsUnavailable from error
    return [b"".join(record.strings).decode(errors="replace") for record in answer]


async def check_sender(settings: Settings, look_up: TxtLookup = look_up_txt) -> AsyncIterator[Finding]:
    domain = address.domain_of(parse_mailbox(settings.sender).address)
    if domain.endswith(LOCAL):
        summary = f"{domain} is not a public domain, so SPF, DKIM and DMARC are not checked"
        yield warning("sender", summary, "set MAILWRIGHT_FROM to an address of your domain")
        return
    # Receivers check SPF for the envelope sender's domain.
    envelope = address.domain_of(settings.bounce_address) if settings.bounce_address else domain
    for name, check in (
        ("spf", _spf(envelope, look_up)),
        ("dkim", _dkim(settings, domain, look_up)),
        ("dmarc", _dmarc(domain, look_up)),
    ):
        try:
            yield await check
        except DnsUnavailable:
            yield warning(name, "unknown: DNS does not respond", "run the check on a machine with network access")


async def _spf(domain: str, look_up: TxtLookup) -> Finding:
    found = [text for text in await look_up(domain) if text.lower().split(" ")[0] == "v=spf1"]
    if not found:
        missing = TxtRecord(domain, "v=spf1 include:YOUR-PROVIDER -all")
        return problem("spf", f"{domain} has no SPF record", 'publish a TXT record "v=spf1 include:… -all"', missing)
    if len(found) > 1:
        return problem(
            "spf", f"{domain} has {len(found)} SPF records, so receivers ignore all of them", "keep one of them"
        )
    return ok("spf", f"{domain}: {found[0]}")


async def _dkim(settings: Settings, domain: str, look_up: TxtLookup) -> Finding:
    from mailwright.app.wiring import dkim_key  # noqa: PLC0415 - commands that only list campaigns stay fast

    try:
        key = dkim_key(settings)
    except MailwrightError as error:
        return problem("dkim", str(error), "correct the DKIM settings")
    if key is None:
        return warning(
            "dkim", "messages are not signed", "set MAILWRIGHT_DKIM_KEY_FILE and _SELECTOR, unless your provider signs"
        )
    name, wanted = f"{key.selector}._domainkey.{key.domain}", key.record()
    found = await look_up(name)
    if any(_tags(text).get("p") == _tags(wanted)["p"] for text in found):
        return ok("dkim", f"{name} publishes the configured key ({key.algorithm})")
    state = "publishes another key" if found else "does not exist"
    summary = f"{name} {state}, so signatures fail verification"
    return problem("dkim", summary, "publish the TXT record of the configured key", TxtRecord(name, wanted))


async def _dmarc(domain: str, look_up: TxtLookup) -> Finding:
    name = f"_dmarc.{domain}"
    found = [text for text in await look_up(name) if text.lower().replace(" ", "").startswith("v=dmarc1")]
    if not found:
        missing = TxtRecord(name, f"v=DMARC1; p=none; rua=mailto:dmarc@{domain}")
        advice = 'publish TXT "v=DMARC1; p=none; rua=mailto:…"'
        return problem("dmarc", f"{name} does not exist", advice, missing)
    policy = _tags(found[0]).get("p", "none")
    return ok("dmarc", f"{name}: policy {policy}")


def _tags(record: str) -> dict[str, str]:
    """Parse the tags of a record such as `k=rsa; p=…`, ignoring white space inside values."""
    pairs = (part.partition("=") for part in record.split(";"))
    return {name.strip().lower(): "".join(value.split()) for name, _, value in pairs if name.strip()}
