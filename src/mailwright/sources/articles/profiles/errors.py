"""Errors of the table of recipients, classified by remedy: correct a setting or the table, or retry later."""

from mailwright.domain.errors import MailwrightError


class ProfilesError(MailwrightError):
    """The table of recipients cannot be used."""

    code = "PROFILES_ERROR"


class ProfilesRefused(ProfilesError):
    """The table of recipients cannot be used until a setting or the table changes. Retrying is useless."""

    code = "PROFILES_REFUSED"


class ProfileRowRefused(ProfilesRefused):
    """The table of recipients refuses a change of one row."""  # Other rows may be changed.

    code = "PROFILES_ROW_REFUSED"


class ProfilesUnavailable(ProfilesError):
    """The table of recipients cannot be reached. Retry later."""

    code = "PROFILES_UNAVAILABLE"
