"""The sender's domain, as receivers see it in DNS: SPF, DKIM and DMARC decide whether our mail is trusted."""

from collections.abc import AsyncIterator, Awaitable, Callable

from mailwright.app.wiring import dkim_key
from mailwright.checks.findings import Finding, TxtRecord, ok, problem, warning
from mailwright.domain import address
from mailwright.domain.errors import MailwrightError
from mailwright.ops.settings import Settings
from mailwright.pipeline.compose import parse_mailbox

# One question. A machine without a network must get its answers soon, not after a minute of waiting.
DNS_SECONDS = 2.0

# The TXT records of a name; none where the name has none. Raises `DnsSilent` where nobody answers.
TxtLookup = Callable[[str], Awaitable[list[str]]]

LOCAL = ("localhost", ".localhost", ".local", ".test", ".invalid", ".example", ".internal")


class DnsSilent(Exception):
    """DNS cannot be asked from here."""


async def look_up_txt(name: str) -> list[str]:
    import dns.asyncresolver  # noqa: PLC0415 - five megabytes that only whoever asks DNS needs
    import dns.exception  # noqa: PLC0415
    import dns.resolver  # noqa: PLC0415

    resolver = dns.asyncresolver.Resolver()
    try:
        answer = await resolver.resolve(name, "TXT", lifetime=DNS_SECONDS)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise DnsSilent from error
    return [b"".join(record.strings).decode(errors="replace") for record in answer]


async def check_sender(settings: Settings, look_up: TxtLookup = look_up_txt) -> AsyncIterator[Finding]:
    domain = address.domain_of(parse_mailbox(settings.sender).address)
    if domain.endswith(LOCAL):
        summary = f"{domain} is not a domain that receivers know: its SPF, DKIM and DMARC are not looked at"
        yield warning("sender", summary, "set MAILWRIGHT_FROM to one of yours")
        return
    # Receivers look for SPF at the domain of the envelope, which bounces go to.
    envelope = address.domain_of(settings.bounce_address) if settings.bounce_address else domain
    for name, question in (
        ("spf", _spf(envelope, look_up)),
        ("dkim", _dkim(settings, domain, look_up)),
        ("dmarc", _dmarc(domain, look_up)),
    ):
        try:
            yield await question
        except DnsSilent:
            yield warning(name, "unknown: DNS does not answer from here", "check again where there is a network")


async def _spf(domain: str, look_up: TxtLookup) -> Finding:
    found = [text for text in await look_up(domain) if text.lower().split(" ")[0] == "v=spf1"]
    if not found:
        missing = TxtRecord(domain, "v=spf1 include:YOUR-PROVIDER -all")
        return problem("spf", f"{domain} has no SPF record", 'publish TXT "v=spf1 include:… -all" there', missing)
    if len(found) > 1:
        return problem("spf", f"{domain} has {len(found)} SPF records; receivers then use none", "keep one of them")
    return ok("spf", f"{domain}: {found[0]}")


async def _dkim(settings: Settings, domain: str, look_up: TxtLookup) -> Finding:
    try:
        key = dkim_key(settings)
    except MailwrightError as error:
        return problem("dkim", str(error), "correct it")
    if key is None:
        return warning(
            "dkim", "we sign nothing", "set MAILWRIGHT_DKIM_KEY_FILE and _SELECTOR, unless your provider signs"
        )
    name, wanted = f"{key.selector}._domainkey.{key.domain}", key.record()
    found = await look_up(name)
    if any(_tags(text).get("p") == _tags(wanted)["p"] for text in found):
        return ok("dkim", f"{name} holds our key ({key.algorithm})")
    state = "holds another key" if found else "does not exist"
    summary = f"{name} {state}: receivers find our signature broken"
    return problem("dkim", summary, "publish the TXT record of our key there", TxtRecord(name, wanted))


async def _dmarc(domain: str, look_up: TxtLookup) -> Finding:
    name = f"_dmarc.{domain}"
    found = [text for text in await look_up(name) if text.lower().replace(" ", "").startswith("v=dmarc1")]
    if not found:
        missing = TxtRecord(name, f"v=DMARC1; p=none; rua=mailto:dmarc@{domain}")
        advice = 'publish there TXT "v=DMARC1; p=none; rua=mailto:…"'
        return problem("dmarc", f"{name} does not exist", advice, missing)
    policy = _tags(found[0]).get("p", "none")
    return ok("dmarc", f"{name}: policy {policy}")


def _tags(record: str) -> dict[str, str]:
    """`k=rsa; p=…` as a mapping; white space inside a value has no meaning."""
    pairs = (part.partition("=") for part in record.split(";"))
    return {name.strip().lower(): "".join(value.split()) for name, _, value in pairs if name.strip()}
