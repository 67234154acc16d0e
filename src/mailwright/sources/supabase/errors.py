"""Errors of Supabase, classified by remedy: fix the cause, retry later, or check the result."""

from typing import Any

from mailwright.domain.errors import MailwrightError


class SupabaseError(MailwrightError):
    """A request to Supabase failed."""

    code = "SUPABASE_ERROR"

    def __init__(self, message: str | None = None, /, *, code: str | None = None, **values: Any) -> None:
        super().__init__(message, **values)
        self.code = code or type(self).code


class SupabaseRefused(SupabaseError):
    """Supabase refuses the request until something changes there or in the settings. Retrying is useless."""

    code = "SUPABASE_REFUSED"


class SupabaseUnavailable(SupabaseError):
    """Supabase is unreachable or too busy. Nothing was written; the request can be repeated later."""

    code = "SUPABASE_UNAVAILABLE"


class SupabaseInDoubt(SupabaseUnavailable):
    """An insert got no complete response, so the rows may exist. Check before repeating it."""

    code = "SUPABASE_IN_DOUBT"
