"""The model of a setting that can be stored in the database."""

from mailwright.app.stored_settings import ShownSetting
from mailwright.schemas.base import ResponseModel, Time


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


def setting_response(shown: ShownSetting) -> SettingResponse:
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
