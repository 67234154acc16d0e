"""The settings of sign-in with an identity provider, validated together."""

import re
from dataclasses import field
from typing import Final
from urllib.parse import urlsplit

from mailwright.access.roles import Role
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import is_loopback_address
from mailwright.ops.settings import Settings
from mailwright.outbox.tenants import DEFAULT

CALLBACK_PATH: Final = "/sign-in/oidc/callback"
_RULE: Final = re.compile(r"(?P<group>.+?)\s*=\s*(?P<role>[a-z]+)(@(?P<tenant>[^@=]+))?")
_ALL: Final = "*"  # All tenants. This must be explicit, because most groups need only one tenant.
_REQUIRED: Final = ("MAILWRIGHT_OIDC_ISSUER", "MAILWRIGHT_OIDC_CLIENT_ID", "MAILWRIGHT_OIDC_CLIENT_SECRET")


@dataclass(frozen=True, slots=True)
class RoleRule:
    """People of a group get a role, in one tenant, or in all of them if `tenant` is None."""

    group: str
    role: Role
    tenant: str | None


@dataclass(frozen=True, slots=True)
class OidcSettings:
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str
    scopes: str
    label: str
    role_claim: str
    rules: tuple[RoleRule, ...]
    email_domains: frozenset[str]
    trusts_email: bool
    new_user_tenant: str | None
    links_existing: bool
    allows_passwords: bool
    second_factors: frozenset[str]

    def rule_for(self, groups: tuple[str, ...]) -> RoleRule | None:
        return next((rule for rule in self.rules if rule.group in groups), None)


def oidc_settings(settings: Settings) -> OidcSettings | None:
    """Return the settings, or None if no identity provider is configured. Raise if they are incomplete."""
    issuer, client_id, secret = settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret
    if issuer is None and client_id is None and secret is None:
        return None
    if issuer is None or client_id is None or secret is None:
        raise ConfigurationInvalid(f"{', '.join(_REQUIRED)}: set all of them, or none")
    problems = [
        *(
            []
            if is_safe_url(issuer) and "?" not in issuer
            else ["MAILWRIGHT_OIDC_ISSUER: must be an https:// URL without query or user"]
        ),
        *([] if "openid" in settings.oidc_scopes.split() else ["MAILWRIGHT_OIDC_SCOPES: must contain openid"]),
    ]
    if settings.oidc_new_user_tenant is not None and not settings.oidc_email_domains:
        problems.append("MAILWRIGHT_OIDC_NEW_USER_TENANT: set MAILWRIGHT_OIDC_EMAIL_DOMAINS too, or anybody gets in")
    rules, wrong = _parse_rules(settings.oidc_roles or "")
    if problems or wrong:
        raise ConfigurationInvalid(*problems, *wrong)
    return OidcSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=secret.get_secret_value(),
        redirect_uri=settings.public_url + CALLBACK_PATH,
        scopes=settings.oidc_scopes,
        label=settings.oidc_label,
        role_claim=settings.oidc_role_claim,
        rules=rules,
        email_domains=frozenset(domain.lower().lstrip("@") for domain in settings.oidc_email_domains),
        trusts_email=settings.oidc_trust_email,
        new_user_tenant=settings.oidc_new_user_tenant,
        links_existing=settings.oidc_link_existing,
        allows_passwords=settings.oidc_password_sign_in,
        second_factors=frozenset(settings.oidc_second_factor),
    )


def is_safe_url(url: str) -> bool:
    """Return whether a URL uses HTTPS, or HTTP on this machine, and contains neither a user nor a fragment."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    is_local = host == "localhost" or is_loopback_address(host)
    is_plain = not parts.fragment and parts.username is None and url.isprintable() and " " not in url
    return bool(host) and is_plain and (parts.scheme == "https" or (parts.scheme == "http" and is_local))


def _parse_rules(text: str) -> tuple[tuple[RoleRule, ...], list[str]]:
    parts = [part.strip() for part in text.split(";" if ";" in text else ",") if part.strip()]
    found, wrong = [], []
    for part in parts:
        match = _RULE.fullmatch(part)
        if match is None or match["role"] not in list(Role):
            example = f"`group=role@tenant` or `group=role@{_ALL}`, with a role of viewer, editor or admin"
            wrong.append(f"MAILWRIGHT_OIDC_ROLES: {part[:80]!r} is not {example}")
        elif match["tenant"] is None:
            fixes = f"`{part[:80]}@{DEFAULT}` for one, `{part[:80]}@{_ALL}` for all tenants"
            wrong.append(f"MAILWRIGHT_OIDC_ROLES: {part[:80]!r} names no tenant; write {fixes}")
        else:
            tenant = None if match["tenant"] == _ALL else match["tenant"]
            found.append(RoleRule(match["group"], Role(match["role"]), tenant))
    return tuple(found), wrong
