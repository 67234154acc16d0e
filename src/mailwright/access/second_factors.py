"""The second factor of users: set it up, verify its codes, and turn it off."""

from sqlalchemy import delete, func, insert, select, update

from mailwright.access import second_factor
from mailwright.access.account_notices import AccountNotices, RequestOrigin
from mailwright.access.account_texts import AUTHENTICATOR_REMOVED, RECOVERY_CODE_USED, SECOND_FACTOR_REMOVED
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.sign_in_log import SignInMethod
from mailwright.access.users import User, end_sessions, find_user
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotPossibleNow
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database, Transaction
from mailwright.storage.secret_box import SecretBox
from mailwright.storage.tables import passkeys, recovery_codes, users


class SecondFactors:
    def __init__(self, database: Database, clock: Clock, counter: FailedSignIns, notices: AccountNotices) -> None:
        self._database = database
        self._notices = notices
        self._clock = clock
        self._failed_sign_ins = counter

    async def verify(self, user: User, code: str, host: str | None, origin: RequestOrigin | None = None) -> bool:
        """Verify a second-factor code, or consume a recovery code and tell the user."""

        async def verify() -> bool | None:
            now = self._clock.now()
            async with self._database.write() as tx:
                left = await _consume_recovery_code(tx, user, code, now)
                if left is not None:
                    await self._notices.notify(
                        tx, user, RECOVERY_CODE_USED, actor=user.login, origin=origin, left=str(left)
                    )
                    return True
                return await _accepts_code(tx, user.id, code, now, self._database.secret_box) or None

        account, login = f"{user.login} (code)", user.login
        return await self._failed_sign_ins.check(account, host, verify, SignInMethod.CODE, login) is True

    async def begin(self, user: User) -> str:
        """Return a new second-factor secret. It takes effect when the user confirms it with a code."""
        if user.has_totp:
            raise NotPossibleNow("An authenticator app is already set up. Remove it first.")
        secret = second_factor.new_secret()
        async with self._database.write() as tx:
            matching = (users.c.id == user.id, users.c.totp_enabled_at.is_(None))
            encrypted = await self._database.secret_box.encrypt(tx, secret)
            await tx.execute(update(users).where(*matching).values(totp_secret=encrypted, totp_step=0))
        return secret

    async def pending_secret(self, user: User) -> str | None:
        query = select(users.c.totp_secret).where(users.c.id == user.id, users.c.totp_enabled_at.is_(None))
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        stored = rows[0].totp_secret if rows else None
        return self._database.secret_box.decrypt(stored) if stored is not None else None

    async def confirm(self, user: User, code: str, *, keep_session: str | None = None) -> list[str] | None:
        """Return the recovery codes, shown only once, or None if the code is wrong. End the user's other sessions."""
        now, codes = self._clock.now(), second_factor.new_recovery_codes()
        async with self._database.write() as tx:
            rows = await tx.execute(
                select(users.c.totp_secret).where(users.c.id == user.id, users.c.totp_enabled_at.is_(None))
            )
            if not rows or rows[0].totp_secret is None:
                raise NotPossibleNow("There is no second factor to confirm. Set it up again.")
            secret = self._database.secret_box.decrypt(rows[0].totp_secret)
            step = second_factor.matching_step(secret, code, now, 0)
            if step is None:
                return None
            await tx.execute(update(users).where(users.c.id == user.id).values(totp_enabled_at=now, totp_step=step))
            await replace_recovery_codes(tx, user.id, codes)
            await end_sessions(tx, user.id, keep_session)
            await record(tx, now, actor=user.login, action="user_second_factor", subject=user.login, tenant_id=None)
        return codes

    async def remove(
        self, user: User, *, actor: str, with_passkeys: bool = True, origin: RequestOrigin | None = None
    ) -> None:
        """Turn off two-factor authentication, or only the authenticator app if the passkeys stay. Notify the user."""
        now = self._clock.now()
        async with self._database.write() as tx:
            none = {"totp_secret": None, "totp_enabled_at": None, "totp_step": 0}
            await tx.execute(update(users).where(users.c.id == user.id).values(**none))
            if with_passkeys:
                await tx.execute(delete(passkeys).where(passkeys.c.user_key == user.id))
            await drop_unused_recovery_codes(tx, user.id)
            await record(tx, now, actor=actor, action="user_second_factor_gone", subject=user.login, tenant_id=None)
            is_on = (await find_user(tx, user.id)).has_second_factor
            if user.has_second_factor:
                text = AUTHENTICATOR_REMOVED if is_on else SECOND_FACTOR_REMOVED
                await self._notices.notify(tx, user, text, actor=actor, origin=origin)


async def _accepts_code(tx: Transaction, user_id: int, code: str, now: Instant, secret_box: SecretBox) -> bool:
    query = select(users.c.totp_secret, users.c.totp_step).where(
        users.c.id == user_id, users.c.totp_enabled_at.is_not(None)
    )
    rows = await tx.execute(query.with_for_update())
    if not rows:
        return False
    secret = secret_box.decrypt(rows[0].totp_secret)
    step = second_factor.matching_step(secret, code, now, rows[0].totp_step)
    if step is None:
        return False
    await tx.execute(update(users).where(users.c.id == user_id).values(totp_step=step))
    return True


async def _consume_recovery_code(tx: Transaction, user: User, code: str, now: Instant) -> int | None:
    """Use a recovery code, and return how many are left; None if the code is wrong."""
    matching = recovery_codes.c.user_key == user.id
    digest = second_factor.recovery_digest(code)
    taken = await tx.execute(
        delete(recovery_codes).where(matching, recovery_codes.c.digest == digest).returning(recovery_codes.c.digest)
    )
    if not taken:
        return None
    [left] = await tx.execute(select(func.count()).select_from(recovery_codes).where(matching))
    await record(
        tx,
        now,
        actor=user.login,
        action="user_recovery_code",
        subject=user.login,
        tenant_id=None,
        detail={"left": left[0]},
    )
    return int(left[0])


async def drop_unused_recovery_codes(tx: Transaction, user_id: int) -> None:
    """Delete the recovery codes of a user who has neither an authenticator app nor a passkey any more."""
    if not (await find_user(tx, user_id)).has_second_factor:
        await replace_recovery_codes(tx, user_id, [])


async def replace_recovery_codes(tx: Transaction, user_id: int, codes: list[str]) -> None:
    await tx.execute(delete(recovery_codes).where(recovery_codes.c.user_key == user_id))
    for code in codes:
        values = {"user_key": user_id, "digest": second_factor.recovery_digest(code)}
        await tx.execute(insert(recovery_codes).values(**values))
