"""What Mailwright knows about a kind of provider. Each kind is declared in `kind.py` of its own folder.

A declaration is data. The code that sends and the code that reads events are imported when they are needed, because
most commands need neither.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from mailwright.domain.lazy_dataclass import dataclass

if TYPE_CHECKING:
    # A type checker sees the settings of one provider together with those of the installation.
    from mailwright.ops.settings import Settings as _Base
else:
    _Base = object


class ProviderSettings(_Base):
    """The settings of one kind of provider, with pydantic annotations. They become fields of `Settings`."""


# The largest body of a webhook. Providers collect events in batches.
MAX_WEBHOOK_BYTES: Final = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SettingField:
    """A setting in the provider's form and in the questions of the set-up in a terminal."""

    name: str
    label: str
    question: str = ""  # Of the set-up in a terminal, which does not ask for settings without one.
    hint: str = ""
    placeholder: str = ""
    choices: tuple[tuple[str, str], ...] = ()  # The only values that the dashboard accepts, with their labels.
    needs: str = ""  # If the form leaves this other setting empty, this one is removed.

    @property
    def fields(self) -> tuple["SettingField", ...]:
        return (self,)


@dataclass(frozen=True, slots=True)
class FormRow:
    """Fields beside each other."""

    fields: tuple[SettingField, ...]


@dataclass(frozen=True, slots=True)
class SmtpServerFields:
    """Host, port, encryption, user and password, which are stored together as one URL."""

    name: str  # The setting with the URL.
    host_example: str
    question: str
    has_oauth: bool = False  # The form also offers OAuth 2.0.
    fields: tuple[SettingField, ...] = ()


FormPart = SettingField | FormRow | SmtpServerFields


@dataclass(frozen=True, slots=True)
class WebhookKind:
    """The events that a provider posts to `/<name>-events`. `make_webhook` in `events.py` verifies and reads them."""

    setting: str  # The key or secret that authenticates the events.
    instruction: str  # Completes "Set …": the setting and its value.
    description: str  # In the API reference.
    is_optional: bool = False  # Events are accepted without the setting, but not those of named providers.
    url_prefix: str = "https://"  # With a password, if the URL needs one.
    max_bytes: int = MAX_WEBHOOK_BYTES


def split_commas(value: Any) -> Any:
    """Validate a setting that is a list: the environment and the file have one text with commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def no_mechanism(_settings: Any, _domain: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class SpfKind:
    """What the SPF record of the From domain needs.

    `has_own_return_path`: the provider uses one of its own domains in the envelope, or a subdomain that is set up in
    its account, so the record needs nothing unless `mechanism` returns a part of it.
    """

    has_own_return_path: bool = True
    relays: tuple[str, ...] = ()  # How the host names of its SMTP servers end.
    mechanism: Callable[[Any, str], str | None] = no_mechanism
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKind:
    """A kind of provider. All names of settings are field names of `Settings`.

    The module `provider` of `package` has two functions. `read_settings(settings)` returns the provider's own settings,
    or raises `ConfigurationInvalid`. `make_provider(settings, clock, http, *, reports_events)` returns the provider.
    """

    name: str  # Stored with every message: it must never change.
    package: str
    label: str
    summary: str  # Below the label, where users choose a provider.
    phrase: str = ""  # Completes "through …"; the label by default.
    order: int = 50  # Kinds of the same order are sorted by their names.
    fields: type | None = None  # A subclass of `ProviderSettings`.
    form: tuple[FormPart, ...] = ()
    is_local: bool = False  # Email stays on this machine.
    required: tuple[str, ...] = ()
    required_if_named: tuple[str, ...] = ()  # A named provider never inherits credentials.
    optional: tuple[str, ...] = ()
    not_stored: tuple[str, ...] = ()  # Only the environment, the file and named providers can set these.
    inherited: tuple[str, ...] = ()  # A named provider uses the installation's value unless it has its own.
    not_named: tuple[str, ...] = ()  # Never used by a named provider, although it cannot set these.
    account: tuple[str, ...] = ()  # They identify the server and account. Of a URL, only host, port and user count.
    account_of: Mapping[str, Callable[[str], str]] = field(default_factory=dict)  # Of settings that change with a key.
    stdin_setting: str | None = None  # The setting that `--secret-stdin` reads.
    credential: str | None = None  # A check warns if it is set but unused; `stdin_setting` by default.
    server_urls: tuple[str, ...] = ()  # The first that is set has the URL of the server.
    needs_http: bool = True
    converts_raw: bool = False  # The API takes fields, so raw email does not arrive byte by byte.
    signs_dkim: bool = True
    spf: SpfKind = SpfKind()
    webhook: WebhookKind | None = None
    event_settings: tuple[
        str, ...
    ] = ()  # With any of these set, the provider reports events; by default the webhook's.
    delivered_by: tuple[str, ...] = ()  # With any of these set, the events come to Mailwright; as above by default.
    has_queue: bool = False  # `events.py` has `make_queue`: events can also be polled.
    checks_events: bool = False  # `events.py` has `check_settings`. Otherwise, making the webhook checks its setting.
    has_quota: bool = False
    quota_setting: str | None = None  # The quota is known only if this is set.
    usual_hourly_limit: int | None = None  # Of the provider's usual plan, if no other limit is set.
    from_refused: tuple[str, ...] = ()  # Error codes of a From address that the provider does not accept.
    sender_not_allowed: tuple[str, ...] = ()  # Error codes of a sender that the account must not use.
    plugin_api: int | None = None  # Plugins set it to `PLUGIN_API` of `ops/plugins.py`.
    problem: str | None = None  # Why the kind cannot be used; only in kinds that the registry makes.

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that a provider of this kind may have."""
        return (*self.required, *self.required_if_named, *self.optional)

    @property
    def stored_settings(self) -> tuple[str, ...]:
        return tuple(name for name in self.settings if name not in self.not_stored)

    @property
    def form_fields(self) -> tuple[SettingField, ...]:
        return tuple(field for part in self.form for field in part.fields)

    @property
    def smtp_server(self) -> SmtpServerFields | None:
        return next((part for part in self.form if isinstance(part, SmtpServerFields)), None)

    @property
    def form_settings(self) -> tuple[str, ...]:
        server = self.smtp_server
        return (*(() if server is None else (server.name,)), *(field.name for field in self.form_fields))

    @property
    def questions(self) -> tuple[tuple[str, str], ...]:
        """The settings that the set-up in a terminal asks for, with their questions."""
        server = self.smtp_server
        asked = () if server is None else ((server.name, server.question),)
        return (*asked, *((field.name, field.question) for field in self.form_fields if field.question))

    @property
    def sentence_name(self) -> str:
        return self.phrase or self.label

    def reports_events(self, settings: Any) -> bool:
        """Return whether the provider is set up to report events."""
        return any(getattr(settings, name) for name in self.event_settings or self._webhook_setting)

    def delivers_events(self, settings: Any) -> bool:
        """Return whether its events should arrive at Mailwright."""
        names = self.delivered_by or self.event_settings or self._webhook_setting
        return any(getattr(settings, name) for name in names)

    def reports_quota(self, settings: Any) -> bool:
        return self.has_quota and (self.quota_setting is None or getattr(settings, self.quota_setting) is not None)

    def load_provider(self) -> Any:
        return import_module(f"{self.package}.provider")

    def load_events(self) -> Any:
        return import_module(f"{self.package}.events")

    @property
    def _webhook_setting(self) -> tuple[str, ...]:
        return () if self.webhook is None else (self.webhook.setting,)
