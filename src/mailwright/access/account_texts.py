"""Texts of the emails about accounts. Users of the dashboard read them, so they are in the dashboard's language."""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class AccountText:
    subject: str
    body: str
    button: str
    note: str

    def filled(self, **values: str) -> "AccountText":
        return replace(self, body=self.body.format(**values))


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
PASSWORD_CHANGED: Final = AccountText(
    subject="Your Mailwright password was changed",
    body="The password of the user {login} at {installation} was reset. All sessions were signed out.",
    button="Reset it again",
    note="If this was not you, reset your password now and tell your administrator.",
)
SIGN_IN_NOTICE: Final = AccountText(
    subject="New sign-in to Mailwright",
    body="The user {login} signed in at {installation} from a new network: {address}, {browser}, {time}.",
    button="Check your sessions",
    note="If this was not you, change your password and sign out the other sessions.",
)
