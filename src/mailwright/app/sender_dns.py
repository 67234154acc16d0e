"""Check SPF, DKIM and DMARC of the sender's domain in DNS."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from pydantic import SecretStr

from mailwright.app.dns_lookup import DnsUnavailable, look_up
from mailwright.app.findings import Finding, TxtRecord, ok, problem, warning
from mailwright.app.providers import providers_of
from mailwright.domain import address
from mailwright.domain.errors import MailwrightError
from mailwright.ops.settings import Settings
from mailwright.pipeline.senders import parse_mailbox
from mailwright.providers.smtp import parse_smtp_url
from mailwright.providers.smtp.settings import is_loopback

# Returns the TXT records of a name, or raises `DnsUnavailable`.
TxtLookup = Callable[[str], Awaitable[list[str]]]

LOCAL = ("localhost", ".localhost", ".local", ".test", ".invalid", ".example", ".internal")


async def look_up_txt(name: str) -> list[str]:
    return await look_up(name, "TXT")


async def check_sender(settings: Settings, look_up: TxtLookup = look_up_txt) -> AsyncIterator[Finding]:
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


# The part of an SPF record that allows the servers of a provider.
# Postmark and Resend use their own return path, so they need none.
SPF_MECHANISMS: Final = {
    "ses": "include:amazonses.com",
    "sendgrid": "include:sendgrid.net",
    "mailgun": "include:mailgun.org",
    "brevo": "include:spf.brevo.com",
}


def spf_record(settings: Settings) -> str:
    """Return an SPF record that allows the configured providers. An SMTP server may send from other hosts too."""
    parts = []
    for name in providers_of(settings):
        if name in SPF_MECHANISMS:
            parts.append(SPF_MECHANISMS[name])
        elif (
            name == "smtp" and settings.smtp_url is not None and not is_loopback(host := _smtp_host(settings.smtp_url))
        ):
            parts.append(f"a:{host}")
        elif name != "mailbox":
            parts.append("include:YOUR-PROVIDER")
    return f"v=spf1 {' '.join(parts or ['include:YOUR-PROVIDER'])} ~all"


def _smtp_host(url: SecretStr) -> str:
    return parse_smtp_url(url.get_secret_value()).host


async def _spf(settings: Settings, domain: str, look_up: TxtLookup) -> Finding:
    found = [text for text in await look_up(domain) if text.lower().split(" ")[0] == "v=spf1"]
    if not found:
        missing = TxtRecord(domain, spf_record(settings))
        return problem("spf", f"{domain} has no SPF record", f'publish a TXT record "{missing.value}"', missing)
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
            "dkim",
            "messages are not signed",
            "create a key in the dashboard under Settings, Default domain, unless your provider signs",
        )
    name, wanted = f"{key.selector}._domainkey.{key.domain}", key.record()
    found = await look_up(name)
    if any(dns_tags(text).get("p") == dns_tags(wanted)["p"] for text in found):
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
    policy = dns_tags(found[0]).get("p", "none")
    return ok("dmarc", f"{name}: policy {policy}")


def dns_tags(record: str) -> dict[str, str]:
    """Parse the tags of a record such as `k=rsa; p=…`, ignoring white space inside values."""
    pairs = (part.partition("=") for part in record.split(";"))
    return {name.strip().lower(): "".join(value.split()) for name, _, value in pairs if name.strip()}
