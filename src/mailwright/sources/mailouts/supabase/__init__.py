"""The Supabase client: read subscribers and write their status and send logs, over PostgREST."""

from mailwright.sources.mailouts.supabase.client import (
    InactiveSubscriber,
    LogLine,
    StatusWrite,
    Subscriber,
    SubscriberStatus,
    Supabase,
)
from mailwright.sources.mailouts.supabase.errors import (
    SupabaseError,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
)
from mailwright.sources.mailouts.supabase.keys import find_key_problem

__all__ = [
    "InactiveSubscriber",
    "LogLine",
    "StatusWrite",
    "Subscriber",
    "SubscriberStatus",
    "Supabase",
    "SupabaseError",
    "SupabaseInDoubt",
    "SupabaseRefused",
    "SupabaseUnavailable",
    "find_key_problem",
]
