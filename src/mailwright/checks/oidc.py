"""Check the identity provider: its discovery document, its keys and the tenants that the settings name."""

from collections.abc import AsyncIterator

from mailwright.access.id_tokens import ALGORITHMS
from mailwright.access.oidc_settings import OidcSettings, oidc_settings
from mailwright.app.databases import open_database
from mailwright.app.oidc import OidcClient, ProviderUnavailable
from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.domain.findings import Finding, ok, problem, warning
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants

_ADVICE = "correct MAILWRIGHT_OIDC_ISSUER or the provider; until then, only passwords and passkeys work"


async def check_oidc(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Download the documents that a sign-in needs. Nobody is signed in."""
    try:
        configured = oidc_settings(settings)
    except ConfigurationInvalid:
        return  # Reported with the other settings.
    if configured is None:
        return
    client = OidcClient(configured, clock)
    try:
        await client.discover()
        keys = await client.load_keys()
    except ProviderUnavailable as error:
        yield problem("sign-in", str(error), _ADVICE)
    else:
        if any(key.get("kty") in ALGORITHMS.values() for key in keys):
            yield ok("sign-in", f"{configured.issuer}: discovery and keys are valid; allow {configured.redirect_uri}")
        else:
            yield problem("sign-in", f"{configured.issuer} publishes no RSA, EC or Ed25519 key", _ADVICE)
    finally:
        await client.close()
    for missing in await _missing_tenants(settings, configured):
        advice = "correct MAILWRIGHT_OIDC_ROLES or MAILWRIGHT_OIDC_NEW_USER_TENANT, or create the tenant"
        yield warning("sign-in", f"there is no tenant {missing}, so its people cannot sign in", advice)


async def _missing_tenants(settings: Settings, configured: OidcSettings) -> list[str]:
    named = {rule.tenant for rule in configured.rules} | {configured.new_user_tenant}
    try:
        database = open_database(settings)
        try:
            known = {tenant.name for tenant in await tenants.list_all(database)}
        finally:
            await database.close()
    except MailwrightError:
        return []  # Another check reports the database.
    return sorted(name for name in named if name is not None and name not in known)
