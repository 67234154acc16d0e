"""The subscribers of mailouts in Supabase: read subscribers and write their status and send logs, over PostgREST."""

from mailwright.sources.mailouts.supabase.client import InactiveSubscriber, LogLine, Subscriber, Supabase
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus
from mailwright.sources.supabase import (
    SupabaseError,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
    find_key_problem,
)

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
