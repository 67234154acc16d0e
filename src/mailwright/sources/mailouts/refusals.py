"""Reasons to refuse a mailout. Codes are stable, appear in the Notion errors table, and come with the next step."""

from collections.abc import Sequence
from typing import Final

from mailwright.domain.errors import MailwrightError

SUBJECT_REQUIRED: Final = "subject_required"
ALREADY_SENT: Final = "mailout_already_sent"
EMPTY_BODY: Final = "empty_body"
REAL_TRIGGER_REQUIRED: Final = "real_trigger_required"
TEST_PROPERTY_MISSING: Final = "test_property_missing"
LOCAL_MAILBOX: Final = "local_mailbox"
TEST_EMAILS_EMPTY: Final = "test_emails_empty"
FOOTER_ENV_MISSING: Final = "footer_env_missing"
RECIPIENTS_EMPTY: Final = "recipients_empty"
CONTENT_INVALID: Final = "content_invalid"
LIST_NOT_FOUND: Final = "list_not_found"
SENDER_RULES_UNMET: Final = "sender_rules"
SENDER_DOMAIN: Final = "sender_domain_not_verified"
APPROVAL_REJECTED: Final = "approval_rejected"
NOT_CONFIGURED: Final = "mailouts_not_configured"


class MailoutRefused(MailwrightError):
    """The mailout was refused; nothing was sent. `each` holds every reason, `code` is that of the first."""

    code = "mailout_refused"

    def __init__(self, code: str, message: str, each: "Sequence[MailoutRefused]" = ()) -> None:
        super().__init__(message)
        self.code = code
        self.each: tuple[MailoutRefused, ...] = tuple(each) or (self,)


def combine(faults: Sequence[MailoutRefused]) -> MailoutRefused:
    """Combine several refusals into one, in their order."""
    return MailoutRefused(faults[0].code, " ".join(str(fault) for fault in faults), faults)


def no_subject() -> MailoutRefused:
    return MailoutRefused(SUBJECT_REQUIRED, "The page has no subject. Write one in Notion, then send the page again.")


def already_sent(how: str) -> MailoutRefused:
    return MailoutRefused(
        ALREADY_SENT,
        f"This mailout was already sent: {how}. To send it again, duplicate the page in Notion, or tick Test.",
    )


def empty_body() -> MailoutRefused:
    return MailoutRefused(
        EMPTY_BODY, "The page has no visible content. Write some in Notion, then send the page again."
    )


def no_test_property(name: str) -> MailoutRefused:
    return MailoutRefused(
        TEST_PROPERTY_MISSING,
        f"The page has no property {name!r}, so a test would look like a real send. Add this checkbox in Notion, "
        "or set its name with NOTION_MAILOUT_PROPERTIES.",
    )


def needs_real_trigger(status: str | None, real: str) -> MailoutRefused:
    return MailoutRefused(
        REAL_TRIGGER_REQUIRED,
        f"The status {status} sends tests only, and Test is not ticked. Tick Test, or set the status {real} to send to "
        "everyone.",
    )


def only_local_mailbox() -> MailoutRefused:
    return MailoutRefused(
        LOCAL_MAILBOX,
        "Email goes to the local mailbox only, so nobody would receive this mailout. Set MAILWRIGHT_PROVIDER to send "
        "it, or set MAILWRIGHT_MAILBOX_MAILOUTS=true to rehearse it into the local mailbox.",
    )


def no_test_emails() -> MailoutRefused:
    return MailoutRefused(
        TEST_EMAILS_EMPTY, "The page is marked as a test, but TEST_EMAILS has no valid address. Set TEST_EMAILS."
    )


def no_footer(missing: tuple[str, ...]) -> MailoutRefused:
    return MailoutRefused(FOOTER_ENV_MISSING, f"The footer needs settings that are missing. Set {', '.join(missing)}.")


def no_recipients(reason: str) -> MailoutRefused:
    return MailoutRefused(RECIPIENTS_EMPTY, f"The mailout has no recipients: {reason}.")


def unknown_list(list_key: str) -> MailoutRefused:
    return MailoutRefused(
        LIST_NOT_FOUND,
        f"MAILWRIGHT_MAILOUT_LIST names the list {list_key}, which does not exist. Create it, or change the setting.",
    )


def sender_refused(reason: str) -> MailoutRefused:
    return MailoutRefused(SENDER_DOMAIN, f"{reason} After that, send the page again.")


def approval_rejected(reason: str) -> MailoutRefused:
    return MailoutRefused(APPROVAL_REJECTED, reason)


def sender_rules_unmet(reason: str) -> MailoutRefused:
    return MailoutRefused(SENDER_RULES_UNMET, f"{reason} After that, send the page again, or override the rules now.")
