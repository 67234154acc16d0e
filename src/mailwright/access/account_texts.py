"""Texts of the emails about accounts. Users of the dashboard read them, so they are in the dashboard's language."""

from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext


@dataclass(frozen=True, slots=True)
class AccountText:
    subject: str
    body: str
    button: str
    note: str
    path: str = "/account"  # the page that the button of a notice opens


_NOT_YOU: Final = lazy_gettext(
    "If this was not you, change your password, sign out the other sessions and tell your administrator."
)
_CHECK_ACCOUNT: Final = lazy_gettext("Check your account")
_CHECK_PASSKEYS: Final = lazy_gettext("Check your passkeys")

INVITATION: Final = AccountText(
    subject=lazy_gettext("You are invited to Mailwright"),
    body=lazy_gettext("{inviter} invites you to use Mailwright at {installation} with the role {role}."),
    button=lazy_gettext("Create your account"),
    note=lazy_gettext("The link works once, within seven days. If you do not know the sender, ignore this email."),
)
PASSWORD_RESET: Final = AccountText(
    subject=lazy_gettext("Reset your Mailwright password"),
    body=lazy_gettext("Someone asked to reset the password of the user {login} at {installation}."),
    button=lazy_gettext("Choose a new password"),
    note=lazy_gettext(
        "The link works once, within one hour. If this was not you, ignore this email; your password stays the same."
    ),
)
CONFIRM_ADDRESS: Final = AccountText(
    subject=lazy_gettext("Confirm your email address for Mailwright"),
    body=lazy_gettext("Confirm that the user {login} at {installation} gets links and notices at this address."),
    button=lazy_gettext("Confirm this address"),
    note=lazy_gettext(
        "The link works once, within 24 hours, for the signed-in user. If this was not you, ignore this email."
    ),
)
PASSWORD_CHANGED: Final = AccountText(
    subject=lazy_gettext("Your Mailwright password was changed"),
    body=lazy_gettext(
        "The password of the user {login} at {installation} was changed: {event}. Other sessions were signed out."
    ),
    button=lazy_gettext("Reset password"),
    note=lazy_gettext("If this was not you, reset your password now and tell your administrator."),
    path="/sign-in/forgotten",
)
ADDRESS_REQUESTED: Final = AccountText(
    subject=lazy_gettext("A new email address was requested for your Mailwright account"),
    body=lazy_gettext(
        "The user {login} at {installation} asked to use the address {email} instead of this one: {event}. "
        "Until it is confirmed, this address stays in use."
    ),
    button=_CHECK_ACCOUNT,
    note=_NOT_YOU,
)
ADDRESS_CHANGED: Final = AccountText(
    subject=lazy_gettext("The email address of your Mailwright account was changed"),
    body=lazy_gettext(
        "The user {login} at {installation} gets links and notices at {email} and no longer at this address: {event}."
    ),
    button=_CHECK_ACCOUNT,
    note=_NOT_YOU,
)
SECOND_FACTOR_REMOVED: Final = AccountText(
    subject=lazy_gettext("Two-factor authentication was turned off in Mailwright"),
    body=lazy_gettext("The user {login} at {installation} needs only a password now: {event}."),
    button=lazy_gettext("Turn it on again"),
    note=_NOT_YOU,
)
AUTHENTICATOR_REMOVED: Final = AccountText(
    subject=lazy_gettext("An authenticator app was removed from your Mailwright account"),
    body=lazy_gettext(
        "The authenticator app of the user {login} at {installation} was removed: {event}. The passkeys remain."
    ),
    button=_CHECK_ACCOUNT,
    note=_NOT_YOU,
)
RECOVERY_CODE_USED: Final = AccountText(
    subject=lazy_gettext("A recovery code was used for your Mailwright account"),
    body=lazy_gettext(
        "Someone signed in as {login} at {installation} with a recovery code: {event}. Codes that are left: {left}."
    ),
    button=_CHECK_ACCOUNT,
    note=_NOT_YOU,
)
PASSKEY_ADDED: Final = AccountText(
    subject=lazy_gettext("A passkey was added to your Mailwright account"),
    body=lazy_gettext("The user {login} at {installation} can sign in with a new passkey: {event}."),
    button=_CHECK_PASSKEYS,
    note=_NOT_YOU,
)
PASSKEY_REMOVED: Final = AccountText(
    subject=lazy_gettext("A passkey was removed from your Mailwright account"),
    body=lazy_gettext("The user {login} at {installation} can no longer sign in with one of their passkeys: {event}."),
    button=_CHECK_PASSKEYS,
    note=_NOT_YOU,
)
IDENTITY_CONNECTED: Final = AccountText(
    subject=lazy_gettext("An identity provider was connected to your Mailwright account"),
    body=lazy_gettext("The user {login} at {installation} can sign in with an account of {issuer}: {event}."),
    button=_CHECK_ACCOUNT,
    note=_NOT_YOU,
)
ROLE_CHANGED: Final = AccountText(
    subject=lazy_gettext("Your role in Mailwright was changed"),
    body=lazy_gettext("The role of the user {login} at {installation} changed from {before} to {after}: {event}."),
    button=_CHECK_ACCOUNT,
    note=lazy_gettext("If you did not expect this, ask your administrator."),
)
SIGN_IN_NOTICE: Final = AccountText(
    subject=lazy_gettext("New sign-in to Mailwright"),
    body=lazy_gettext("The user {login} signed in at {installation} from a new network: {event}."),
    button=lazy_gettext("Check your sessions"),
    note=lazy_gettext("If this was not you, change your password and sign out the other sessions."),
)
