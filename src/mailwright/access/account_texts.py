"""Texts of the emails about accounts. Users of the dashboard read them, so they are in the dashboard's language."""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class AccountText:
    subject: str
    body: str
    button: str
    note: str
    path: str = "/account"  # the page that the button of a notice opens

    def filled(self, **values: str) -> "AccountText":
        return replace(self, body=self.body.format(**values))


_NOT_YOU: Final = "If this was not you, change your password, sign out the other sessions and tell your administrator."

INVITATION: Final = AccountText(
    subject="You are invited to Mailwright",
    body="{inviter} invites you to use Mailwright at {installation} with the role {role}.",
    button="Create your account",
    note="The link works once, within seven days. If you do not know the sender, ignore this email.",
)
PASSWORD_RESET: Final = AccountText(
    subject="Reset your Mailwright password",
    body="Someone asked to reset the password of the user {login} at {installation}.",
    button="Choose a new password",
    note="The link works once, within one hour. If this was not you, ignore this email; your password stays the same.",
)
CONFIRM_ADDRESS: Final = AccountText(
    subject="Confirm your email address for Mailwright",
    body="Confirm that the user {login} at {installation} gets links and notices at this address.",
    button="Confirm this address",
    note="The link works once, within 24 hours, for the signed-in user. If this was not you, ignore this email.",
)
PASSWORD_CHANGED: Final = AccountText(
    subject="Your Mailwright password was changed",
    body="The password of the user {login} at {installation} was changed: {event}. Other sessions were signed out.",
    button="Reset it",
    note="If this was not you, reset your password now and tell your administrator.",
    path="/sign-in/forgotten",
)
ADDRESS_REQUESTED: Final = AccountText(
    subject="A new email address was requested for your Mailwright account",
    body="The user {login} at {installation} asked to use the address {email} instead of this one: {event}. "
    "Until it is confirmed, this address stays in use.",
    button="Check your account",
    note=_NOT_YOU,
)
ADDRESS_CHANGED: Final = AccountText(
    subject="The email address of your Mailwright account was changed",
    body="The user {login} at {installation} gets links and notices at {email} and no longer at this address: {event}.",
    button="Check your account",
    note=_NOT_YOU,
)
SECOND_FACTOR_REMOVED: Final = AccountText(
    subject="Two-factor authentication was turned off in Mailwright",
    body="The user {login} at {installation} needs only a password now: {event}.",
    button="Turn it on again",
    note=_NOT_YOU,
)
AUTHENTICATOR_REMOVED: Final = AccountText(
    subject="An authenticator app was removed from your Mailwright account",
    body="The authenticator app of the user {login} at {installation} was removed: {event}. The passkeys remain.",
    button="Check your account",
    note=_NOT_YOU,
)
RECOVERY_CODE_USED: Final = AccountText(
    subject="A recovery code was used for your Mailwright account",
    body="Someone signed in as {login} at {installation} with a recovery code: {event}. Codes that are left: {left}.",
    button="Check your account",
    note=_NOT_YOU,
)
PASSKEY_ADDED: Final = AccountText(
    subject="A passkey was added to your Mailwright account",
    body="The user {login} at {installation} can sign in with a new passkey: {event}.",
    button="Check your passkeys",
    note=_NOT_YOU,
)
PASSKEY_REMOVED: Final = AccountText(
    subject="A passkey was removed from your Mailwright account",
    body="The user {login} at {installation} can no longer sign in with one of their passkeys: {event}.",
    button="Check your passkeys",
    note=_NOT_YOU,
)
IDENTITY_CONNECTED: Final = AccountText(
    subject="An identity provider was connected to your Mailwright account",
    body="The user {login} at {installation} can sign in with an account of {issuer}: {event}.",
    button="Check your account",
    note=_NOT_YOU,
)
ROLE_CHANGED: Final = AccountText(
    subject="Your role in Mailwright was changed",
    body="The role of the user {login} at {installation} changed from {before} to {after}: {event}.",
    button="Check your account",
    note="If you did not expect this, ask your administrator.",
)
SIGN_IN_NOTICE: Final = AccountText(
    subject="New sign-in to Mailwright",
    body="The user {login} signed in at {installation} from a new network: {event}.",
    button="Check your sessions",
    note="If this was not you, change your password and sign out the other sessions.",
)
