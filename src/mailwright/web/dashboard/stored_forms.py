"""Forms for the settings in the database: fill them, and convert the input to stored values."""

from collections.abc import Container, Iterable
from typing import Any, Final
from urllib.parse import quote, urlencode

from pydantic import SecretStr

from mailwright.app.provider_test import advice_for, check_providers
from mailwright.app.setting_rules import parse_changes
from mailwright.app.setup import SetupStep, reopen_step
from mailwright.app.stored_settings import EffectiveSettings, change_settings, load_effective, masked
from mailwright.app.wiring import Engine
from mailwright.content.headers import find_unwritable, parse_mailbox
from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, MailwrightError
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import SECRETS, STORABLE, text_of, variable_of
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.smtp.settings import SmtpAuth, SmtpSettings
from mailwright.providers.smtp.url import parse_smtp_url
from mailwright.texts.sentences import sentence
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors
from mailwright.web.session import Visitor

# The value of a setting; None returns to the default.
Changes = dict[str, str | None]

ENCRYPTIONS: Final = (
    ("starttls", lazy_gettext("STARTTLS (usually port 587)")),
    ("tls", lazy_gettext("TLS (usually port 465)")),
    ("none", lazy_gettext("None (local server only)")),
)
SMTP_AUTHS: Final = (
    ("password", lazy_gettext("Password")),
    ("xoauth2", lazy_gettext("OAuth 2.0 (Microsoft 365, Gmail)")),
)
TRACKING_MODES: Final = (
    ("off", lazy_gettext("Off")),
    ("anonymous", lazy_gettext("Anonymous totals")),
    ("individual", lazy_gettext("Contacts who consented")),
)

SENDER_FIELDS: Final = (
    "postal_address",
    "base_url",
    "timezone",
    "language",
    "reply_address",
    "reply_forward_to",
    "bounce_address",
)
LIMIT_FIELDS: Final = (
    "rate_per_second",
    "rate_per_hour",
    "daily_limit",
    "interval_ms",
    "working_hours",
    "frequency_cap",
    "warmup_since",
    "warmup_start",
    "warmup_factor",
)
OAUTH_FIELDS: Final = (
    "oauth_token_url",
    "oauth_client_id",
    "oauth_client_secret",
    "oauth_refresh_token",
    "oauth_scope",
)
# The settings of providers with an SMTP server, by the prefix of the form fields.
SMTP_FORMS: Final = {kind.name: kind.smtp_server.name for kind in KINDS.values() if kind.smtp_server is not None}
# Form fields whose setting has another name, to show errors beside them.
_FORM_FIELDS: Final = {
    "sender": "sender_address",
    "tracking": "installation_tracking",
    **{name: f"default_{name}" for name in LIMIT_FIELDS},
    **{setting: f"{prefix}_host" for prefix, setting in SMTP_FORMS.items()},
}


async def save_changes(engine: Engine, visitor: Visitor, changes: Changes) -> bool:
    """Store the changed values, and let this process use them at once. Return whether any value changed.

    Raise if one of them is not valid, or is fixed outside of the dashboard.
    """
    effective = await load_effective(engine.settings, engine.database)
    wanted = {name: text for name, text in changes.items() if _differs(effective, name, text)}
    if wanted:
        await change_settings(engine.settings, engine.database, engine.clock, wanted, actor=visitor.actor)
        engine.settings_saved.set()
        if "provider" in wanted:
            await reopen_step(engine.database, SetupStep.TEST)
    return bool(wanted)


def _differs(effective: EffectiveSettings, name: str, text: str | None) -> bool:
    current = getattr(effective.settings, name)
    if effective.origin(name).is_fixed and text is None:  # The browser does not send the field.
        return False
    if text is None:
        return name in effective.stored
    return current is None or text != text_of(current)


async def try_changes(engine: Engine, changes: Changes) -> list[tuple[ProviderCheck, str]]:
    """Test the provider with these values, without storing them."""
    effective = await load_effective(engine.settings, engine.database)
    values, problems = parse_changes({name: text for name, text in changes.items() if text is not None})
    if problems:
        raise ConfigurationInvalid(*problems)
    kept = {
        name: getattr(effective.settings, name) for name in effective.stored if name in STORABLE and name not in changes
    }
    candidate = engine.settings.with_stored({**kept, **values})
    return [(each, advice_for(each)) for each in await check_providers(candidate, engine.clock)]


def stored_errors(error: MailwrightError) -> Errors:
    """Return the errors by form field. Errors of settings begin with the name of the variable."""
    if not isinstance(error, ConfigurationInvalid):
        return field_errors(error, _FORM_FIELDS)
    names = {variable_of(name): name for name in STORABLE}
    found = Errors()
    for problem in error.problems:
        variable, _, text = str(problem).partition(": ")
        name = names.get(variable.partition(",")[0])
        found[_FORM_FIELDS.get(name, name) if name else FORM] = sentence(text if name else problem)
    return found


# The sender.


def sender_values(settings: Settings) -> Fields:
    box = parse_mailbox(settings.sender)
    given = {name: getattr(settings, name) for name in SENDER_FIELDS}
    is_default = settings.sender == Settings.model_fields["sender"].default
    named = {"sender_name": "" if is_default else box.name or "", "sender_address": "" if is_default else box.address}
    return Fields({name: str(value) for name, value in given.items() if value is not None} | named)


def sender_changes(form: Fields, fields: tuple[str, ...] = SENDER_FIELDS) -> Changes:
    """Return the values of the form. Fields that it does not have stay as they are."""
    changes: Changes = {name: form[name] or None for name in fields if name in form}
    if "sender_address" in form:
        changes["sender"] = _sender(form)
    return changes


def _sender(form: Fields) -> str | None:
    if found := find_unwritable(form["sender_name"]):
        raise InvalidInput(gettext("Remove {found} from the name.", found=found), field="sender_name")
    if not form["sender_address"]:
        if form["sender_name"]:
            raise InvalidInput(gettext("Enter the address of the sender."), field="sender_address")
        return None
    try:
        address.parse(form["sender_address"])
    except address.InvalidAddress as error:
        raise InvalidInput(
            gettext("This is not a valid address: {error}", error=error), field="sender_address"
        ) from error
    return address.format_mailbox(form["sender_name"] or None, form["sender_address"])


# Providers.


def provider_values(settings: Settings) -> Fields:
    """Return the form of the providers. Secrets stay empty; `secret_notes` says whether they are set."""
    shown = {*OAUTH_FIELDS, *(name for kind in KINDS.values() for name in kind.form_settings)} - SECRETS
    found = Fields({name: str(value) for name in shown if (value := getattr(settings, name)) is not None})
    found["provider"] = settings.provider
    for prefix, name in SMTP_FORMS.items():
        server = _smtp_server(getattr(settings, name))
        if server is not None:
            found |= {f"{prefix}_host": server.host, f"{prefix}_port": str(server.port), f"{prefix}_tls": server.tls}
            found[f"{prefix}_user"] = server.user or ""
            found[f"{prefix}_auth"] = server.auth
    return found


def secret_notes(settings: Settings) -> dict[str, str]:
    """Describe the secrets that are set, for the hints of their fields."""
    notes: dict[str, str] = {}
    for name in SECRETS:
        value = getattr(settings, name)
        if value is None:
            continue
        notes[name] = gettext("{name} Leave the field empty to keep it.", name=sentence(masked(name, text_of(value))))
    for prefix, name in SMTP_FORMS.items():
        server = _smtp_server(getattr(settings, name))
        notes.pop(name, None)
        if server is not None and server.password is not None:
            notes[f"{prefix}_password"] = gettext("Set. Leave the field empty to keep it.")
    return notes


def provider_changes(form: Fields, settings: Settings, fixed: Container[str] = ()) -> Changes:
    """Return the values of the chosen provider. Other providers and fixed settings do not change."""
    provider = form["provider"]
    if provider not in KINDS:
        raise InvalidInput(gettext("Choose a provider."), field="provider")
    changes = _form_changes(KINDS[provider], form, settings, fixed)
    return {"provider": provider, **{name: text for name, text in changes.items() if name not in fixed}}


def _form_changes(kind: ProviderKind, form: Fields, settings: Settings, fixed: Container[str]) -> Changes:
    """Return the values of the fields of this kind. Empty secrets are kept."""
    changes = _field_changes(form, (field.name for field in kind.form_fields))
    # A secret that belongs to another setting does not stay without it.
    needing = [field for field in kind.form_fields if field.needs and field.needs not in fixed]
    changes |= {field.name: None for field in needing if not form[field.needs]}
    server = kind.smtp_server
    if server is not None and server.name not in fixed:
        changes[server.name] = _smtp_url(form, kind.name, getattr(settings, server.name))
    if server is None or not server.has_oauth or form[f"{kind.name}_auth"] != SmtpAuth.XOAUTH2:
        return changes
    _require_secrets_again(form, settings, fixed, changes)
    return {**_field_changes(form, OAUTH_FIELDS), **changes}


def _require_secrets_again(form: Fields, settings: Settings, fixed: Container[str], changes: Changes) -> None:
    """Refuse to use a stored secret with another token endpoint, or its tokens with another mail server."""
    endpoint = settings.oauth_token_url if "oauth_token_url" in fixed else form["oauth_token_url"] or None
    server, entered = _smtp_server(settings.smtp_url), changes.get("smtp_url")
    wanted = server if entered is None else parse_smtp_url(entered)
    is_same = wanted is not None and server is not None and (wanted.host, wanted.tls) == (server.host, server.tls)
    if endpoint == settings.oauth_token_url and is_same:
        return
    for name, label in (
        ("oauth_client_secret", gettext("client secret")),
        ("oauth_refresh_token", gettext("refresh token")),
    ):
        if getattr(settings, name) is not None and not form[name]:
            raise InvalidInput(
                gettext("Enter the {label} again for another server or token URL.", label=label), field=name
            )


def _field_changes(form: Fields, names: Iterable[str]) -> Changes:
    changes: Changes = {}
    for name in names:
        changes |= _kept_if_empty(form, name) if name in SECRETS else {name: form[name] or None}
    return changes


def _kept_if_empty(form: Fields, name: str) -> Changes:
    return {name: form[name]} if form[name] else {}


def _smtp_url(form: Fields, prefix: str, current: SecretStr | None) -> str:
    """Write the fields of an SMTP server as a URL. An empty password keeps the old one, but only on the same server."""
    host, user, password = (form[f"{prefix}_{name}"] for name in ("host", "user", "password"))
    if not host:
        raise InvalidInput(gettext("Enter the host, for example smtp.example.com."), field=f"{prefix}_host")
    if any(character in host for character in "/@?# ") or (":" in host and not host.startswith("[")):
        raise InvalidInput(gettext("Enter the host only, without port and path."), field=f"{prefix}_host")
    port = form.number(f"{prefix}_port")
    if port is not None and not 1 <= port <= 65535:
        raise InvalidInput(gettext("Enter a port from 1 to 65535."), field=f"{prefix}_port")
    server = _smtp_server(current)
    place = host if port is None else f"{host}:{port}"
    rest = f"{place}?{urlencode(_smtp_options(form, prefix, server, host))}"
    if user and not password and server is not None and form[f"{prefix}_auth"] != SmtpAuth.XOAUTH2:
        entered = parse_smtp_url(f"smtp://{rest}")
        if (server.host, server.port, server.tls, server.user) != (entered.host, entered.port, entered.tls, user):
            raise InvalidInput(
                gettext("Enter the password again for another server, port, encryption or user."),
                field=f"{prefix}_password",
            )
        password = server.password or ""
    if form[f"{prefix}_auth"] == SmtpAuth.XOAUTH2:
        if not user:
            raise InvalidInput(gettext("Enter the user, which is the address of the mailbox."), field=f"{prefix}_user")
        return f"smtp://{quote(user, safe='')}@{rest}&auth=xoauth2"
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    return f"smtp://{login}{rest}"


def _smtp_options(form: Fields, prefix: str, server: SmtpSettings | None, host: str) -> dict[str, Any]:
    """Keep the options that the form does not show, as long as the server stays the same."""
    options: dict[str, Any] = {"tls": form[f"{prefix}_tls"] or "starttls"}
    if server is not None and server.host == host.lower():
        options |= {"ca": str(server.ca)} if server.ca is not None else {}
        options |= {"connections": server.connections} if server.connections is not None else {}
        options |= {"purpose": server.purpose} if server.purpose is not None else {}
    return options


def _smtp_server(url: SecretStr | None) -> SmtpSettings | None:
    try:
        return None if url is None else parse_smtp_url(url.get_secret_value())
    except ConfigurationInvalid:
        return None


# Limits and tracking.


def limit_values(settings: Settings) -> Fields:
    given = {f"default_{name}": getattr(settings, name) for name in LIMIT_FIELDS}
    return Fields({name: str(value) for name, value in given.items() if value is not None})


def limit_changes(form: Fields) -> Changes:
    """Return the default limits. Their fields have a prefix, because the page also has the limits of the tenant."""
    return {name: form[f"default_{name}"] or None for name in LIMIT_FIELDS if f"default_{name}" in form}
