"""Passkeys (WebAuthn): register them, sign in with one, or use one as the second factor after the password.

A passkey belongs to the host of the public URL; browsers offer it nowhere else, so it cannot be phished.
"""

import hashlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.access import second_factor
from mailwright.access.account_notices import AccountNotices, RequestOrigin
from mailwright.access.account_texts import PASSKEY_ADDED, PASSKEY_REMOVED, SECOND_FACTOR_REMOVED
from mailwright.access.challenges import ChallengeInvalid, ChallengeKind, Challenges
from mailwright.access.roles import Forbidden
from mailwright.access.second_factors import drop_unused_recovery_codes, replace_recovery_codes
from mailwright.access.users import User, end_sessions, find_user
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import is_numeric_or_local
from mailwright.ops.logs import logger
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import identities, passkeys, recovery_codes

if TYPE_CHECKING:
    from fido2.server import Fido2Server
    from fido2.webauthn import AttestedCredentialData

MAX_PASSKEYS: Final = 20
MAX_NAME: Final = 60
_MAX_RESPONSE: Final = 20_000

log = logger(__name__)
# The library logs the id of every passkey that is used.
logging.getLogger("fido2").setLevel(logging.WARNING)


class PasskeyRefused(Forbidden):
    """This passkey was not accepted. Try again, or use another way to sign in."""

    code = "PASSKEY_REFUSED"


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey as its user sees it."""

    id: int
    name: str
    created_at: Instant
    used_at: Instant | None


@dataclass(frozen=True, slots=True)
class PasskeyRequest:
    """The options with which the browser asks for a passkey, and the cookie with the challenge."""

    options: dict[str, Any]
    sealed: str


class Passkeys:
    def __init__(self, database: Database, clock: Clock, public_url: str, notices: AccountNotices) -> None:
        self._database = database
        self._notices = notices
        self._clock = clock
        parts = urlsplit(public_url)
        self._host, self._origin = parts.hostname or "", f"{parts.scheme}://{parts.netloc}"
        self._challenges = Challenges(database, clock)

    @property
    def is_available(self) -> bool:
        """Whether browsers allow passkeys at the public URL: HTTPS or localhost, and no IP address."""
        is_local = self._host == "localhost" or self._host.endswith(".localhost")
        is_secure = self._origin.startswith("https://")
        return is_local or (is_secure and not is_numeric_or_local(self._host))

    # Passkeys of a user.

    async def list_for_user(self, user: User) -> list[Passkey]:
        p = passkeys.c
        query = select(p.id, p.name, p.created_at, p.used_at).where(p.user_key == user.id).order_by(p.id)
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return [Passkey(row.id, row.name, row.created_at, row.used_at) for row in rows]

    async def begin_registration(self, user: User) -> PasskeyRequest:
        from fido2.webauthn import (  # noqa: PLC0415 - imported only if passkeys are used
            PublicKeyCredentialUserEntity,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        known = await self._credentials(user.id)
        if len(known) >= MAX_PASSKEYS:
            raise NotPossibleNow("You have {max_passkeys} passkeys. Remove one first.", max_passkeys=MAX_PASSKEYS)
        options, state = self._server().register_begin(
            PublicKeyCredentialUserEntity(name=user.login, id=_handle(user), display_name=user.login),
            list(known.values()),
            resident_key_requirement=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return self._request(ChallengeKind.NEW_PASSKEY, dict(options), state, user)

    async def register(
        self,
        user: User,
        sealed: str | None,
        response: str,
        name: str,
        *,
        keep_session: str,
        origin: RequestOrigin | None = None,
    ) -> list[str] | None:
        """Store a new passkey, end the user's other sessions and notify the user.

        Return new recovery codes, shown only once, if the user had none.
        """
        challenge = self._open(ChallengeKind.NEW_PASSKEY, sealed, user)
        try:
            data = self._server().register_complete(challenge["state"], _parse(response))
            credential = data.credential_data
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _refused(error) from error
        if credential is None:
            raise PasskeyRefused
        now, codes, shown = self._clock.now(), second_factor.new_recovery_codes(), _check_name(name)
        values = {
            "user_key": user.id,
            "credential_id": credential.credential_id.hex(),
            "credential": bytes(credential).hex(),
            "name": shown,
            "sign_count": data.counter,
            "created_at": now,
        }
        try:
            async with self._database.write() as tx:
                await self._challenges.use(tx, challenge)
                await tx.execute(insert(passkeys).values(**values))
                is_first = not await _has_recovery_codes(tx, user.id)
                if is_first:
                    await replace_recovery_codes(tx, user.id, codes)
                await end_sessions(tx, user.id, keep_session)
                await _record(tx, now, user, "user_passkey", shown)
                await self._notices.notify(tx, user, PASSKEY_ADDED, actor=user.login, origin=origin)
        except IntegrityError as error:
            raise NotPossibleNow("This passkey is registered already.") from error
        return codes if is_first else None

    async def rename(self, user: User, passkey_id: int, name: str) -> None:
        async with self._database.write() as tx:
            changed = update(passkeys).where(*_own(user, passkey_id)).values(name=_check_name(name))
            if not await tx.execute(changed.returning(passkeys.c.id)):
                raise NotFound("This passkey was removed in the meantime.")

    async def remove(self, user: User, passkey_id: int, *, actor: str, origin: RequestOrigin | None = None) -> str:
        """Remove a passkey, notify the user, and return the name of the passkey."""
        async with self._database.write() as tx:
            rows = await tx.execute(delete(passkeys).where(*_own(user, passkey_id)).returning(passkeys.c.name))
            if not rows:
                raise NotFound("This passkey was removed in the meantime.")
            await _require_another_way_in(tx, user)
            await drop_unused_recovery_codes(tx, user.id)
            await _record(tx, self._clock.now(), user, "user_passkey_gone", rows[0].name, actor=actor)
            is_on = (await find_user(tx, user.id)).has_second_factor
            text = PASSKEY_REMOVED if is_on else SECOND_FACTOR_REMOVED
            await self._notices.notify(tx, user, text, actor=actor, origin=origin)
        return str(rows[0].name)

    # Sign-in.

    def begin_sign_in(self) -> PasskeyRequest:
        """Ask for any passkey of this site. The device must verify its user with a PIN, a finger or a face."""
        from fido2.webauthn import UserVerificationRequirement  # noqa: PLC0415 - see above

        options, state = self._server().authenticate_begin(user_verification=UserVerificationRequirement.REQUIRED)
        return self._request(ChallengeKind.PASSKEY, dict(options), state)

    async def sign_in(self, sealed: str | None, response: str) -> User:
        """Return the user of the passkey that answered the challenge."""
        challenge, answer = self._open(ChallengeKind.PASSKEY, sealed), _parse(response)
        query = select(passkeys.c.user_key).where(passkeys.c.credential_id == _credential_id(answer))
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        if not rows:
            raise PasskeyRefused("This passkey is not known here. It may have been removed.")
        user = await self._authenticate(rows[0].user_key, challenge, answer)
        if user.disabled_at is not None:
            raise PasskeyRefused
        return user

    async def begin_second_factor(self, user: User) -> PasskeyRequest:
        """Ask for a passkey of this user, whose password was correct."""
        from fido2.webauthn import UserVerificationRequirement  # noqa: PLC0415 - see above

        known = await self._credentials(user.id)
        options, state = self._server().authenticate_begin(
            list(known.values()), user_verification=UserVerificationRequirement.PREFERRED
        )
        return self._request(ChallengeKind.PASSKEY_CODE, dict(options), state, user)

    async def verify_second_factor(self, user: User, sealed: str | None, response: str) -> None:
        challenge = self._open(ChallengeKind.PASSKEY_CODE, sealed, user)
        await self._authenticate(user.id, challenge, _parse(response))

    async def _authenticate(self, user_id: int, challenge: Mapping[str, Any], answer: dict[str, Any]) -> User:
        """Verify the signature with the keys of this user, and record that the challenge was used."""
        from fido2.webauthn import AuthenticationResponse  # noqa: PLC0415 - see above

        known = await self._credentials(user_id)
        try:
            used = self._server().authenticate_complete(challenge["state"], list(known.values()), answer)
            parsed = AuthenticationResponse.from_dict(answer)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _refused(error) from error
        count, handle = parsed.response.authenticator_data.counter, parsed.response.user_handle
        credential_id = used.credential_id.hex()
        async with self._database.write() as tx:
            user = await find_user(tx, user_id)
            if handle and handle != _handle(user):
                raise PasskeyRefused
            await self._challenges.use(tx, challenge)
            is_counted = await _count_signature(tx, credential_id, count, self._clock.now())
            if not is_counted:
                await _record(tx, self._clock.now(), user, "user_passkey_copied", credential_id[:16])
        if not is_counted:
            raise PasskeyRefused("This passkey may have been copied: its counter went back. Remove it.")
        return user

    async def _credentials(self, user_id: int) -> "dict[str, AttestedCredentialData]":
        from fido2.webauthn import AttestedCredentialData  # noqa: PLC0415 - see above

        p = passkeys.c
        async with self._database.read() as tx:
            rows = await tx.execute(select(p.credential_id, p.credential).where(p.user_key == user_id))
        return {row.credential_id: AttestedCredentialData(bytes.fromhex(row.credential)) for row in rows}

    def _server(self) -> "Fido2Server":
        from fido2.server import Fido2Server  # noqa: PLC0415 - see above
        from fido2.webauthn import PublicKeyCredentialRpEntity  # noqa: PLC0415 - see above

        if not self.is_available:
            raise NotPossibleNow("Passkeys need an https:// address with a host name as MAILWRIGHT_BASE_URL.")
        party = PublicKeyCredentialRpEntity(name="Mailwright", id=self._host)
        return Fido2Server(party, verify_origin=lambda origin: origin == self._origin)

    def _request(
        self, kind: ChallengeKind, options: dict[str, Any], state: Any, user: User | None = None
    ) -> PasskeyRequest:
        values = {"state": state, "user": user.id if user is not None else None}
        return PasskeyRequest(options, self._challenges.seal(kind, values))

    def _open(self, kind: ChallengeKind, sealed: str | None, user: User | None = None) -> dict[str, Any]:
        challenge = self._challenges.open(kind, sealed)
        if challenge["user"] != (user.id if user is not None else None):
            raise ChallengeInvalid
        return challenge


def _handle(user: User) -> bytes:
    """Return the id of the user on the device, which reveals nothing about them."""
    return hashlib.sha256(f"mailwright user {user.id} {user.created_at}".encode()).digest()


def _parse(response: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(response) if len(response) <= _MAX_RESPONSE else None
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise PasskeyRefused
    return parsed


def _credential_id(answer: Mapping[str, Any]) -> str:
    from fido2.utils import websafe_decode  # noqa: PLC0415 - see above

    try:
        return websafe_decode(answer["rawId"]).hex()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _refused(error) from error


def _refused(error: Exception) -> PasskeyRefused:
    log.warning("passkey_refused", reason=str(error)[:200])
    return PasskeyRefused()


def _check_name(name: str) -> str:
    text = " ".join(name.split())
    if not 0 < len(text) <= MAX_NAME or not text.isprintable():
        raise InvalidInput("A name has 1 to {max_name} characters.", field="name", max_name=MAX_NAME)
    return text


def _own(user: User, passkey_id: int) -> tuple[Any, ...]:
    return passkeys.c.id == passkey_id, passkeys.c.user_key == user.id


async def _require_another_way_in(tx: Transaction, user: User) -> None:
    """Raise if a user without a password would have neither a passkey nor an identity left."""
    if user.has_password or (await find_user(tx, user.id)).has_passkey:
        return
    if not await tx.execute(select(identities.c.id).where(identities.c.user_key == user.id)):
        raise NotPossibleNow("Add another passkey first. Otherwise nobody could sign in to this account.")


async def _has_recovery_codes(tx: Transaction, user_id: int) -> bool:
    query = select(func.count()).select_from(recovery_codes).where(recovery_codes.c.user_key == user_id)
    return bool((await tx.execute(query))[0][0])


async def _count_signature(tx: Transaction, credential_id: str, count: int, now: Instant) -> bool:
    """Store the signature count of a device. Return False if it did not grow, or if the passkey is gone."""
    p = passkeys.c
    grows = p.sign_count < count if count else p.sign_count == 0  # Many devices do not count: it stays 0.
    changed = update(passkeys).where(p.credential_id == credential_id, grows).values(sign_count=count, used_at=now)
    return bool(await tx.execute(changed.returning(p.id)))


async def _record(
    tx: Transaction, now: Instant, user: User, action: str, name: str, *, actor: str | None = None
) -> None:
    detail = {"passkey": name}
    await record(tx, now, actor=actor or user.login, action=action, subject=user.login, tenant_id=None, detail=detail)
