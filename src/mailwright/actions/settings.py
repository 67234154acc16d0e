"""Settings that are stored in the database and that the dashboard can change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import PLATFORM_MANAGE, PLATFORM_READ, Line, Moment, Noun, Table
from mailwright.app.stored_settings import ShownSetting, change_settings, load_effective, shown_settings
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.stored import Origin, OriginKind, field_of, variable_of
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import FieldError, RequestInvalid

noun = Noun(
    "setting",
    "Settings that are stored in the database. The environment and mailwright.toml have priority over them.",
    "/v1/settings",
    reads=PLATFORM_READ,
    parameters={"setting_name": ("NAME", "The name, for example MAILWRIGHT_FROM or sender.")},
)


class SettingsUpdateRequest(RequestModel):
    """The settings to store, by name. Null deletes a stored value, so that the default applies again.

    They are verified together with all others, and stored together or not at all.
    """

    settings: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=100)], Annotated[str, Field(max_length=20_000)] | None],
        Field(min_length=1, max_length=100),
    ]


class SettingResponse(ResponseModel):
    """A setting. A secret shows only that it is set. `setBy`: the variable or file that sets it."""

    name: str
    field: str
    value: str | None
    is_secret: bool
    origin: str
    set_by: str | None
    stored_at: Time | None
    stored_by: str | None


class SettingListResponse(ResponseModel):
    settings: list[SettingResponse]


def _origin(each: SettingResponse) -> Origin:
    return Origin(OriginKind(each.origin), each.set_by or "")


@noun.get(
    command="list",
    shown=Table(
        "settings",
        {
            "Setting!": "name",
            "Value": lambda each: "–" if each.value is None else each.value,
            "From": lambda each: _origin(each).text,
        },
        nothing="",
    ),
)
async def list_settings(at: Context) -> SettingListResponse:
    """List the settings that can be stored, their values, and where each value comes from."""
    return SettingListResponse(settings=await _load(at))


def _lines(found: SettingResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"{found.name}: {'not set' if found.value is None else found.value}"
    yield f"Value: {_origin(found).text}"
    if found.stored_by is not None:
        unused = ", and not used" if _origin(found).is_fixed else ""
        yield (f"Stored by {found.stored_by} at ", Moment(found.stored_at), unused)


@noun.get("/{settingName}", command="show", shown=_lines)
async def show(at: Context, setting_name: str) -> SettingResponse:
    """Show one setting: its value, where it comes from, and who stored it. A secret is never shown."""
    with _reported():
        field = field_of(setting_name)
    return next(each for each in await _load(at) if each.field == field)


@noun.patch(scope=PLATFORM_MANAGE, audit="setting_set")
async def change(at: Context, wanted: SettingsUpdateRequest) -> SettingListResponse:
    """Store settings. Servers and workers use them within seconds, without a restart.

    Secrets are stored encrypted, and no response shows them. Settings that need a restart cannot be stored, nor those
    that the environment or mailwright.toml sets.
    """
    with _reported():
        changes = {field_of(name): text for name, text in wanted.settings.items()}
        await _change(at, changes)
    return SettingListResponse(settings=[each for each in await _load(at) if each.field in changes])


@noun.delete(
    "/{settingName}",
    scope=PLATFORM_MANAGE,
    audit="setting_unset",
    command="unset",
    shown=lambda _none, given: [f"{variable_of(field_of(given['setting_name']))} deleted from the database."],
)
async def unset(at: Context, setting_name: str) -> None:
    """Delete a stored setting. Its default applies again."""
    with _reported():
        await _change(at, {field_of(setting_name): None})


async def _load(at: Context) -> list[SettingResponse]:
    effective = await load_effective(at.settings, at.database)
    return [_response(each) for each in shown_settings(effective)]


async def _change(at: Context, changes: Mapping[str, str | None]) -> None:
    await change_settings(at.settings, at.database, at.clock, changes, actor=at.actor)
    if at.engine is not None:
        at.engine.settings_saved.set()


def _response(shown: ShownSetting) -> SettingResponse:
    stored = shown.stored
    return SettingResponse(
        name=shown.variable,
        field=shown.name,
        value=shown.value,
        is_secret=shown.is_secret,
        origin=shown.origin.kind,
        set_by=shown.origin.name or None,
        stored_at=None if stored is None else stored.updated_at,
        stored_by=None if stored is None else stored.updated_by,
    )


@contextmanager
def _reported() -> Iterator[None]:
    """Report each problem of the settings with the name of its setting."""
    try:
        yield
    except ConfigurationInvalid as error:
        pairs = [str(problem).partition(": ") for problem in error.problems]
        raise RequestInvalid([FieldError(name, "INVALID", text or name) for name, _, text in pairs]) from error
