"""Protect sign-up forms from bots without a captcha: with proof of work, or with a second page if scripts are off.

Both are signed, so that nothing is stored before they are used. Each works once. The second page costs a program
nothing, so it is bound to the address, and few are shown in an hour, to one network and for one form.
"""

import hmac
import secrets
from hashlib import blake2b, sha256
from typing import Final

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.network import network_of
from mailwright.domain.permits import LimitWindow
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.storage.database import Database

# About 65,000 hashes: a second on a slow phone.
DIFFICULTY_BITS: Final = 16
CHALLENGE_LIFETIME: Final = HOUR
# A person needs some time to read the second page.
FASTEST_PERSON: Final = SECOND
STEP_LIFETIME: Final = 30 * MINUTE
# Few people have no scripts. Everyone else does the work, and is not affected by these limits.
STEPS_PER_NETWORK: Final = 6
STEPS_PER_FORM: Final = 60
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

    async def new_step(self, form_id: str, email: str, remote_address: str) -> str | None:
        """Return the token of the second page, which people without scripts see; None if too many were shown."""
        number = self._clock.now() // HOUR
        ends = (number + 1) * HOUR
        limits = {network_of(remote_address): STEPS_PER_NETWORK, f"form {form_id}": STEPS_PER_FORM}
        windows = [
            LimitWindow(f"mailwright:form-step:{number}:{self._digest(each)}", limit, ends, "form_step", ends)
            for each, limit in limits.items()
        ]
        if not (await self._ledger.reserve(windows, 1)).count:
            return None
        return self._signed("step", _bound(form_id, email))

    async def is_person(self, form_id: str, email: str, step: str) -> bool:
        """Return whether the button of the second page for this address was pressed, not too fast and only once."""
        at = self._time_of("step", _bound(form_id, email), step)
        if at is None or not FASTEST_PERSON <= self._clock.now() - at <= STEP_LIFETIME:
            return False
        return await self._use_once(step, at)

    async def _use_once(self, token: str, at: Instant) -> bool:
        digest = blake2b(token.encode(), digest_size=12).hexdigest()
        ends = at + 2 * CHALLENGE_LIFETIME
        window = LimitWindow(f"mailwright:form-token:{digest}", 1, ends, "form_token", ends)
        return (await self._ledger.reserve((window,), 1)).count == 1

    def _digest(self, text: str) -> str:
        return blake2b(text.encode(), key=self._key, digest_size=12).hexdigest()

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


def _bound(form_id: str, email: str) -> str:
    digest = sha256(email.strip().lower().encode(errors="replace")).hexdigest()
    return f"{form_id}.{digest}"


def has_proof(challenge: str, solution: str) -> bool:
    """Return whether the hash of the challenge with the solution begins with enough zero bits."""
    if not solution.isascii() or not solution.isdecimal() or len(solution) > MAX_TEXT:
        return False
    digest = sha256(f"{challenge}:{solution}".encode()).digest()
    return int.from_bytes(digest, "big") >> (8 * len(digest) - DIFFICULTY_BITS) == 0
