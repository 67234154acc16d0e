"""Second factor: one-time codes of six digits (TOTP), each for a time step of 30 seconds, and recovery codes."""

import base64
import hashlib
import secrets
from typing import Final

import pyotp

from mailwright.domain.clock import SECOND, Instant

ISSUER: Final = "Mailwright"
RECOVERY_CODES: Final = 10
_STEP: Final = 30 * SECOND
# Number of time steps that a code may be early or late, to tolerate a wrong clock.
_TOLERANCE: Final = 1


def new_secret() -> str:
    return pyotp.random_base32()


def provisioning_uri(secret: str, login: str) -> str:
    return pyotp.TOTP(secret).provisioning_uri(name=login, issuer_name=ISSUER)


def qr_code_svg(secret: str, login: str) -> str:
    """Return a QR code as inline SVG."""
    import segno  # noqa: PLC0415 - rarely needed, and needs a megabyte of memory

    code = segno.make(provisioning_uri(secret, login), error="m")
    picture = code.svg_inline(border=0, dark="#000", light="#fff", svgclass="qr", lineclass=None, omitsize=True)
    return str(picture)


def matching_step(secret: str, code: str, now: Instant, last_step: int) -> int | None:
    """Return the time step that a code belongs to, or None if it is wrong, expired or already used."""
    digits = code.replace(" ", "")
    if len(digits) != 6 or not (digits.isascii() and digits.isdecimal()):
        return None
    generator = pyotp.TOTP(secret)
    current = now // _STEP
    matching = [
        step
        for step in range(current - _TOLERANCE, current + _TOLERANCE + 1)
        if secrets.compare_digest(generator.generate_otp(step), digits)
    ]
    return next((step for step in matching if step > last_step), None)


def new_recovery_codes() -> list[str]:
    return [
        _group_characters(base64.b32encode(secrets.token_bytes(10)).decode().lower()) for _ in range(RECOVERY_CODES)
    ]


def recovery_digest(code: str) -> str:
    """Return the digest of a recovery code, ignoring case, spaces and dashes. 80 random bits need no slow hash."""
    plain = "".join(code.lower().split()).replace("-", "")
    return hashlib.sha256(plain.encode()).hexdigest()


def _group_characters(text: str) -> str:
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))
