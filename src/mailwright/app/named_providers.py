"""Named providers: providers with their own credentials, for some tenants or sources."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mailwright.app.setting_rules import parse_changes
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.provider_routes import ProviderRoutes, check_provider_name
from mailwright.domain.translation import lazy_gettext, lazy_join
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KIND_PROBLEMS, KINDS
from mailwright.ops.secret_files import holds_secret
from mailwright.ops.settings import Settings
from mailwright.ops.stored import parse_stored, variable_of
from mailwright.outbox import provider_configurations as stored
from mailwright.outbox.provider_configurations import ProviderChange, ProviderConfiguration, StoredProviders
from mailwright.outbox.provider_limits import LIMIT_SETTINGS
from mailwright.storage.database import Database

if TYPE_CHECKING:
    from mailwright.providers.protocol import ProviderCheck
    from mailwright.providers.route import Route

# Every command loads this module. The providers take a tenth of its time to import, so the functions below import them.


def fields_of(kind: str) -> tuple[str, ...]:
    """Return the settings that a provider of this kind may have."""
    return (*KINDS[kind].settings, *LIMIT_SETTINGS)


def required_fields(kind: str) -> tuple[str, ...]:
    return (*KINDS[kind].required, *KINDS[kind].required_if_named)


def is_secret(name: str) -> bool:
    return holds_secret(Settings.model_fields[name].annotation)


def account_of(kind: str, settings: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the values that identify the server and account, without passwords and tokens, which can change at any
    time.
    """
    return tuple(_identity(KINDS[kind], name, settings.get(name)) for name in KINDS[kind].account)


def _identity(kind: ProviderKind, name: str, text: str | None) -> str | None:
    if text is None:
        return None
    if name.endswith("_url"):
        url = urlsplit(text)
        return f"{url.username or ''}@{url.hostname}:{url.port or url.scheme}"
    return kind.account_of[name](text) if name in kind.account_of else text


# Settings of the installation, above all credentials, that a named provider must not inherit by accident.
_OWN: Final = {
    name: Settings.model_fields[name].default
    for name in {each for kind in KINDS for each in (*fields_of(kind), *KINDS[kind].not_named)} | {"route"}
    if not any(name in kind.inherited for kind in KINDS.values())
}


# Settings of inbound events that belong to the installation and to no provider.
_NOT_OWN: Final = dict.fromkeys(("bounce_mailbox", "reply_address", "reply_forward_to"))


@dataclass(frozen=True, slots=True)
class NamedProvider:
    """A provider that is ready to be built; `problem` says why it is not."""

    name: str
    kind: str
    settings: Settings = field(repr=False)
    problem: str | None = None
    account: int = 0  # See `ProviderConfiguration.account`.

    def make_route(self, clock: Clock) -> "Route":
        from mailwright.app.providers import make_route  # noqa: PLC0415
        from mailwright.providers.route import Route  # noqa: PLC0415
        from mailwright.providers.unusable import unusable_member  # noqa: PLC0415

        if self.problem is not None:
            return Route([unusable_member(self.name, self.problem, clock)], clock)
        return make_route(self.settings, clock, self.name)


@dataclass(frozen=True, slots=True)
class NamedProviders:
    """The named providers of an installation, and which tenants use them."""

    by_name: Mapping[str, NamedProvider] = field(default_factory=dict)
    routes: ProviderRoutes = field(default_factory=ProviderRoutes)
    changed_at: Instant = 0

    @property
    def used(self) -> tuple[NamedProvider, ...]:
        """The providers that at least one route names."""
        return tuple(self.by_name[name] for name in sorted(self.routes.providers))

    def settings_of(self, tenant_id: int, installation: Settings) -> list[Settings]:
        """Return the settings of all providers that send email of the tenant."""
        used = {self.routes.provider_of(tenant_id, source) for source in Source}
        named = [self.by_name[name].settings for name in sorted(name for name in used if name is not None)]
        return [installation, *named] if None in used else named

    def find(self, tenant_id: int, source: Source) -> NamedProvider | None:
        """Return the provider that sends the email of this source; None for the provider of the installation."""
        name = self.routes.provider_of(tenant_id, source)
        return None if name is None else self.by_name[name]

    @classmethod
    def of(cls, found: StoredProviders, settings: Settings) -> "NamedProviders":
        """Return the providers of an installation. A dry run uses none: everything goes to the local mailbox."""
        if settings.dry_run:
            return cls()
        made = {each.name: named_provider(each, settings) for each in found.configurations}
        rules = found.rules
        for name in rules.providers - made.keys():  # Another process has just deleted it.
            made[name] = NamedProvider(name, "", settings, lazy_gettext("there is no provider {name}", name=name))
        return cls(made, rules, found.changed_at)


NO_PROVIDERS: Final = NamedProviders()


async def load_named(database: Database, settings: Settings) -> NamedProviders:
    """Return the providers and routes as they are now."""
    return NamedProviders.of(await stored.load_providers(database), settings)


def named_provider(found: ProviderConfiguration, settings: Settings) -> NamedProvider:
    if (problem := found.problem or KINDS[found.kind].problem) is not None:
        return NamedProvider(found.name, found.kind, settings, problem, found.account)
    values, problems = parse_stored(found.settings)
    own = settings.model_copy(update=_OWN | values | {"provider": found.kind})
    problems += _find_problems(own)
    return NamedProvider(found.name, found.kind, own, lazy_join("; ", problems) if problems else None, found.account)


def _find_problems(own: Settings) -> list[str]:
    """Return the problems in the settings of a provider, for sending and for its webhook."""
    from mailwright.app.inbound import verify_inbound  # noqa: PLC0415 - large, and few commands need it
    from mailwright.app.providers import verify_providers  # noqa: PLC0415

    problems: list[str] = []
    for verify, settings in ((verify_providers, own), (verify_inbound, own.model_copy(update=_NOT_OWN))):
        try:
            verify(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    return problems


class ProviderService:
    """The actions of administrators on providers, shared by the dashboard, the API and `mailwright provider`."""

    def __init__(self, settings: Settings, database: Database, clock: Clock) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock

    async def list_all(self) -> StoredProviders:
        return await stored.load_providers(self._database)

    async def find(self, name: str) -> ProviderConfiguration:
        return await stored.find_configuration(self._database, name)

    async def create(self, name: str, kind: str, given: Mapping[str, str], *, actor: str) -> ProviderConfiguration:
        check_provider_name(name, frozenset(KINDS))
        texts = self.verified(kind, given)
        return await stored.create_configuration(self._database, self._clock, name, kind, texts, actor=actor)

    async def edit(
        self, name: str, given: Mapping[str, str | None], *, actor: str, seen_at: Instant | None = None
    ) -> ProviderConfiguration:
        """Change the given settings and keep the others. None removes one. `seen_at`: see `edit_configuration`."""

        def change(found: ProviderConfiguration) -> ProviderChange:
            fields = {_field(found.kind, each): text for each, text in given.items()}
            kept = {each: text for each, text in found.settings.items() if each not in fields}
            texts = self.verified(found.kind, kept | {each: text for each, text in fields.items() if text is not None})
            is_known = found.problem is None
            same = is_known and account_of(found.kind, texts) == account_of(found.kind, found.settings)
            return ProviderChange(texts, keeps_account=same)

        return await stored.edit_configuration(self._database, self._clock, name, change, actor=actor, seen_at=seen_at)

    async def delete(self, name: str, *, actor: str) -> None:
        await stored.delete_configuration(self._database, self._clock, name, actor=actor)

    async def set_route(self, tenant_id: int, source: Source | None, provider: str | None, *, actor: str) -> None:
        await stored.set_route(self._database, self._clock, tenant_id, source, provider, actor=actor)

    async def delete_route(self, tenant_id: int, source: Source | None, *, actor: str) -> None:
        await stored.delete_route(self._database, self._clock, tenant_id, source, actor=actor)

    async def test(self, name: str) -> "ProviderCheck":
        """Connect and sign in to a provider without sending anything."""
        from mailwright.app.provider_test import check_providers  # noqa: PLC0415
        from mailwright.providers.protocol import ProviderCheck  # noqa: PLC0415

        made = named_provider(await self.find(name), self._settings)
        if made.problem is not None:
            return ProviderCheck(False, made.problem)
        [check] = await check_providers(made.settings, self._clock)
        return check

    def verified(self, kind: str, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings by field, or raise an error that names the setting and the fix."""
        if kind in KIND_PROBLEMS:
            raise InvalidInput(KIND_PROBLEMS[kind], field="kind")
        if kind not in KINDS:
            raise InvalidInput("The provider must be one of {kinds}.", field="kind", kinds=", ".join(KINDS))
        fields = {_field(kind, name): text.strip() for name, text in given.items()}
        for name in required_fields(kind):
            if not fields.get(name):
                raise InvalidInput("This setting is required for {kind}.", field=variable_of(name), kind=kind)
        limit = KINDS[kind].usual_hourly_limit
        usual = {} if limit is None else {"rate_per_hour": str(limit)}
        texts = usual | {name: text for name, text in fields.items() if text}
        values, problems = parse_changes(texts)
        _refuse(problems)
        _refuse(_find_problems(self._settings.model_copy(update=_OWN | values | {"provider": kind})))
        return {name: _text(texts[name], values[name]) for name in texts}


def _field(kind: str, name: str) -> str:
    """Return the field of a setting by its field name or its variable."""
    wanted = name.strip()
    for each in fields_of(kind):
        if wanted.lower() == each or wanted.upper() == variable_of(each):
            return each
    known = ", ".join(variable_of(each) for each in fields_of(kind)) or "none"
    raise InvalidInput(
        "{kind} has no setting {wanted}. Its settings: {known}.",
        field=wanted[:80],
        kind=kind,
        wanted=wanted[:80],
        known=known,
    )


def _text(given: str, value: Any) -> str:
    return value if isinstance(value, str) else given


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise InvalidInput(lazy_join(". ", problems), field=problems[0].partition(":")[0])
