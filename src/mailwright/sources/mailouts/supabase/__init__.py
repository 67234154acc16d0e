"""Supabase: who gets mailouts is read from there, and what becomes of them is told there, over PostgREST."""

from mailwright.sources.mailouts.supabase.client import LogLine, Standing, Subscriber, Supabase
from mailwright.sources.mailouts.supabase.errors import (
    SupabaseError,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
)
from mailwright.sources.mailouts.supabase.keys import objection_to_key

__all__ = [
    "LogLine",
    "Standing",
    "Subscriber",
    "Supabase",
    "SupabaseError",
    "SupabaseInDoubt",
    "SupabaseRefused",
    "SupabaseUnavailable",
    "objection_to_key",
]
