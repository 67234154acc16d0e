"""Combine the settings of a process with those in the database, and change them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mailwright.app.addresses import located
from mailwright.app.named_providers import NO_PROVIDERS, NamedProviders
from mailwright.app.setting_rules import parse_changes
from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, NotDurable, setting_problem
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.settings import Settings
from mailwright.ops.stored import SECRETS, STORABLE, Origin, origin_of, parse_stored, text_of, variable_of
from mailwright.outbox.provider_configurations import load_providers
from mailwright.outbox.stored_settings import StoredSetting, load_stored, save_stored, version_of
from mailwright.storage.database import Database
from mailwright.storage.secret_box import SecretKeyInvalid, is_encrypted

# How often a process looks for changed settings and for a new address of the server.
POLL_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The settings that apply in this process.

    A process with problems must not send: a value that cannot be read may name the provider or the sender.
    """

    settings: Settings
    stored: Mapping[str, StoredSetting]
    version: str
    problems: tuple[str, ...] = ()
    named: NamedProviders = NO_PROVIDERS

    def origin(self, field: str) -> Origin:
        return origin_of(self.settings, field, self.stored)

    @property
    def fixed(self) -> Mapping[str, Origin]:
        """The settings that can only be changed outside the dashboard."""
        origins = {name: self.origin(name) for name in STORABLE}
        return {name: origin for name, origin in origins.items() if origin.is_fixed}


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting as lists show it. Of a secret, it shows only that it is set, and the last characters of an API key."""

    name: str
    variable: str
    value: str | None
    is_secret: bool
    origin: Origin
    stored: StoredSetting | None


async def load_effective(settings: Settings, database: Database) -> EffectiveSettings:
    """Combine the settings. The environment and `mailwright.toml` have priority over the database."""
    stored = {each.name: each for each in await load_stored(database)}
    texts: dict[str, str] = {}
    problems: list[str] = []
    for name, each in stored.items():
        # A newer version may have stored a setting that this one does not know.
        if name not in STORABLE or name in settings.base.model_fields_set:
            continue
        try:
            texts[name] = database.secret_box.decrypt(each.value) if is_encrypted(each.value) else each.value
        except SecretKeyInvalid as error:
            problems.append(setting_problem(variable_of(name), error.text))
    values, invalid = parse_stored(texts)
    merged = await located(settings.with_stored(values), database)
    providers = await load_providers(database)
    version = version_of(stored.values()) + providers.version
    named = NamedProviders.of(providers, merged)
    return EffectiveSettings(merged, stored, version, (*problems, *invalid), named)


async def wait_until_changed(
    current: Settings, version: str, database: Database, saved: asyncio.Event
) -> EffectiveSettings:
    """Wait until the stored settings or the server's address differ from those in use, and return the new ones."""
    while True:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await saved.wait()
        except TimeoutError:
            pass
        saved.clear()
        try:
            found = await load_effective(current, database)
        except NotDurable:
            continue  # The next round checks again.
        if found.version != version or found.settings.public_url != current.public_url:
            return found


def shown_settings(effective: EffectiveSettings) -> list[ShownSetting]:
    return [
        ShownSetting(
            name,
            variable_of(name),
            shown_value(name, getattr(effective.settings, name)),
            name in SECRETS,
            effective.origin(name),
            effective.stored.get(name),
        )
        for name in STORABLE
    ]


def shown_value(name: str, value: Any) -> str | None:
    if value is None:
        return None
    return masked(name, text_of(value)) if name in SECRETS else text_of(value)


def masked(name: str, secret: str) -> str:
    """Return the end of an API key, and nothing of a password or a private key."""
    if name.endswith("_api_key") and len(secret) >= 20:
        return lazy_gettext("set, ends with …{end}", end=secret[-4:])
    return lazy_gettext("set")


async def change_settings(
    current: Settings, database: Database, clock: Clock, changes: Mapping[str, str | None], *, actor: str
) -> EffectiveSettings:
    """Store new values, or raise if the installation could not send with them. None returns to the default."""
    from mailwright.app.verify import verify  # noqa: PLC0415 - slow to import

    effective = await load_effective(current, database)
    for name in changes:
        if (origin := effective.origin(name)).is_fixed:
            raise InvalidInput(
                "{name} is {text}. Change it there.", field=name, name=variable_of(name), text=origin.text
            )
    given = {name: text for name, text in changes.items() if text is not None}
    values, problems = parse_changes(given)
    if problems:
        raise ConfigurationInvalid(*problems)
    kept = {name: getattr(effective.settings, name) for name in effective.stored if name not in changes}
    verify(current.with_stored({name: kept[name] for name in kept if name in STORABLE} | values))
    texts = {name: None if name not in values else text_of(values[name]) for name in changes}
    await save_stored(database, clock, texts, secrets=SECRETS, actor=actor)
    return await load_effective(current, database)
