"""Keys of Supabase: one for browsers sees no subscriber and gets no error either, so it is told by its looks."""

import binascii
from base64 import urlsafe_b64decode
from typing import Final

import orjson

_INSTEAD: Final = "take the service_role or a secret key, from Project Settings and API Keys"


def find_key_problem(key: str) -> str | None:
    """Why mailouts cannot work with this key, as far as the key itself tells."""
    if key.startswith("sb_publishable_"):
        return f"this is a publishable key, which sees no subscriber: {_INSTEAD}"
    role = _role(key)
    if role is not None and role != "service_role":
        return f"this is the key of the role {role}, which sees no subscriber: {_INSTEAD}"
    return None


def is_token(key: str) -> bool:
    """Keys of the older kind are JSON Web Tokens, and name their role."""
    return _role(key) is not None


def _role(key: str) -> str | None:
    parts = key.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    role = claims.get("role") if isinstance(claims, dict) else None
    return role if isinstance(role, str) else None
