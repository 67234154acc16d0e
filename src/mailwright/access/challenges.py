"""Challenges of sign-ins: the server's data for one sign-in, encrypted in a cookie of the browser that began it.

Nothing is stored before a challenge has been answered correctly, so visitors who are not signed in cannot fill the
database. The first correct answer stores the digest of the challenge, and later ones are refused.
"""

import hashlib
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import delete

from mailwright.access.roles import Forbidden
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import used_challenges

USE_CHALLENGE = statement(__package__, "use_challenge")

CHALLENGE_AGE: Final[Instant] = 10 * MINUTE
_MAX_SEALED: Final = 4_000


class ChallengeKind(StrEnum):
    OIDC = "oidc"
    CONNECT = "connect"  # A signed-in user is about to connect the identity provider.
    NEW_PASSKEY = "new_passkey"
    PASSKEY = "passkey"  # A sign-in with a passkey only.
    PASSKEY_CODE = "passkey_code"  # A passkey as the second factor, after the password.


class ChallengeInvalid(Forbidden):
    """This sign-in has expired, was already used or began in another browser. Start again."""

    code = "CHALLENGE_INVALID"


class Challenges:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def seal(self, kind: ChallengeKind, values: Mapping[str, Any]) -> str:
        """Return a new challenge with these values as the content of a cookie."""
        ends_at = self._clock.now() + CHALLENGE_AGE
        content = {**values, "kind": kind, "id": secrets.token_urlsafe(16), "ends_at": ends_at}
        return self._database.secret_box.seal(orjson.dumps(content).decode())

    def open(self, kind: ChallengeKind, sealed: str | None) -> dict[str, Any]:
        """Return the values of a challenge, or raise if it is missing, changed, expired or of another kind."""
        text = self._database.secret_box.unseal(sealed) if sealed and len(sealed) <= _MAX_SEALED else None
        values: dict[str, Any] = orjson.loads(text) if text is not None else {}
        if values.get("kind") != kind or values["ends_at"] <= self._clock.now():
            raise ChallengeInvalid
        return values

    async def use(self, tx: Transaction, values: Mapping[str, Any]) -> None:
        """Record the use of a challenge in the transaction of the sign-in, or raise if it was used before."""
        digest = hashlib.sha256(str(values["id"]).encode()).hexdigest()
        await tx.execute(delete(used_challenges).where(used_challenges.c.ends_at <= self._clock.now()))
        if not await tx.run(USE_CHALLENGE, digest=digest, ends_at=values["ends_at"]):
            raise ChallengeInvalid
