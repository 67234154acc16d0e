"""What can go wrong with Supabase, by what is to be done about it: change something there, or try again later."""

from mailwright.domain.errors import MailwrightError


class SupabaseError(MailwrightError):
    """Supabase did not do what was asked."""

    code = "SUPABASE_ERROR"

    def __init__(self, message: str | None = None, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code


class SupabaseRefused(SupabaseError):
    """Supabase refuses this until somebody changes something there or in our settings. Asking again is no use."""

    code = "SUPABASE_REFUSED"


class SupabaseUnavailable(SupabaseError):
    """Supabase cannot be reached or is too busy. The same request may be made again later; nothing was written."""

    code = "SUPABASE_UNAVAILABLE"


class SupabaseInDoubt(SupabaseUnavailable):
    """No whole answer came to a request that adds rows: they may be there. Look before asking again."""

    code = "SUPABASE_IN_DOUBT"
