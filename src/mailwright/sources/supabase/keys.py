"""Recognise Supabase's browser keys by their format. Supabase returns neither subscribers nor an error for them."""

import binascii
from base64 import urlsafe_b64decode

import orjson

from mailwright.domain.translation import lazy_gettext


def find_key_problem(key: str) -> str | None:
    """Return why mailouts cannot use this key, or None if its format is fine."""
    if key.startswith("sb_publishable_"):
        return lazy_gettext(
            "this is a publishable key, which cannot read subscribers; use the service_role key or a secret key, from "
            "Project Settings, API Keys"
        )
    role = _role(key)
    if role is not None and role != "service_role":
        return lazy_gettext(
            "this key has the role {role}, which cannot read subscribers; use the service_role key or a secret key, "
            "from Project Settings, API Keys",
            role=role,
        )
    return None


def is_token(key: str) -> bool:
    """Return whether the key is a JSON Web Token, the older format, which contains the role."""
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
