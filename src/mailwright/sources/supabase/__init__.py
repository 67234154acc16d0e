"""Access tables in Supabase over PostgREST: read in pages, update rows of an address in any spelling, insert."""

from mailwright.sources.supabase.errors import (
    SupabaseError,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
)
from mailwright.sources.supabase.keys import find_key_problem
from mailwright.sources.supabase.rest import (
    PAGE_ROWS,
    SettingNames,
    Sleep,
    SupabaseRest,
    SupabaseTable,
    array_literal,
    filter_lists,
    filter_value,
)
from mailwright.sources.supabase.spellings import is_spelling_of, search_pattern

__all__ = [
    "PAGE_ROWS",
    "SettingNames",
    "Sleep",
    "SupabaseError",
    "SupabaseInDoubt",
    "SupabaseRefused",
    "SupabaseRest",
    "SupabaseTable",
    "SupabaseUnavailable",
    "array_literal",
    "filter_lists",
    "filter_value",
    "find_key_problem",
    "is_spelling_of",
    "search_pattern",
]
