"""Protect sign-up forms from bots without a captcha: with proof of work, or with a second page if scripts are off.

Both are signed, so that nothing is stored before they are used. Each works once.
"""

import hmac
import secrets
from hashlib import blake2b, sha256
from typing import Final

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.permits import LimitWindow
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.storage.database import Database

# About 65,000 hashes: a second on a slow phone.
DIFFICULTY_BITS: Final = 16
CHALLENGE_LIFETIME: Final = HOUR
# A person needs some time to read the second page.
FASTEST_PERSON: Final = SECOND
STEP_LIFETIME: Final = 30 * MINUTE
MAX_TEXT: Final = 200


class FormProtection:
    def __init__(self, database: Database, clock: Clock, secret: str) -> None:
        self._clock = clock
        self._ledger = DatabaseLedger(database, clock)
        self._key = sha256(f"sign-up form challenges {secret}".encode()).digest()

    def new_challenge(self, form_id: str) -> str:
        return self._signed("work", form_id)

    async def is_solved(self, form_id: str, challenge: str, solution: str) -> bool:
        """Return whether the solution is right and was not used before."""
        at = self._time_of("work", form_id, challenge)
        if at is None or self._clock.now() - at > CHALLENGE_LIFETIME or not has_proof(challenge, solution):
            return False
        return await self._use_once(challenge, at)

    def new_step(self, form_id: str) -> str:
        """Return the token of the second page, which people without scripts see."""
        return self._signed("step", form_id)

    async def is_person(self, form_id: str, step: str) -> bool:
        """Return whether the button of the second page was pressed, not too fast and only once."""
        at = self._time_of("step", form_id, step)
        if at is None or not FASTEST_PERSON <= self._clock.now() - at <= STEP_LIFETIME:
            return False
        return await self._use_once(step, at)

    async def _use_once(self, token: str, at: Instant) -> bool:
        digest = blake2b(token.encode(), digest_size=12).hexdigest()
        ends = at + 2 * CHALLENGE_LIFETIME
        window = LimitWindow(f"mailwright:form-token:{digest}", 1, ends, "form_token", ends)
        return (await self._ledger.reserve((window,), 1)).count == 1

    def _signed(self, purpose: str, form_id: str) -> str:
        text = f"{self._clock.now()}.{secrets.token_hex(8)}"
        return f"{text}.{self._signature(purpose, form_id, text)}"

    def _time_of(self, purpose: str, form_id: str, token: str) -> int | None:
        """Return when the token was made; None if it is not one of our tokens."""
        text, _, signature = token[:MAX_TEXT].rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._signature(purpose, form_id, text)):
            return None
        return int(text.partition(".")[0])

    def _signature(self, purpose: str, form_id: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}.{form_id}.{text}".encode(), sha256).hexdigest()[:32]


def has_proof(challenge: str, solution: str) -> bool:
    """Return whether the hash of the challenge with the solution begins with enough zero bits."""
    if not solution.isascii() or not solution.isdecimal() or len(solution) > MAX_TEXT:
        return False
    digest = sha256(f"{challenge}:{solution}".encode()).digest()
    return int.from_bytes(digest, "big") >> (8 * len(digest) - DIFFICULTY_BITS) == 0
