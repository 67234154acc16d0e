"""Reasons to refuse a mailout. Codes are stable, appear in the Notion errors table, and come with the next step."""

from collections.abc import Sequence
from typing import Any, Final

from mailwright.domain.errors import MailwrightError
from mailwright.domain.translation import lazy_join
from mailwright.sources.mailouts.rendering.block_renderer import ContentIssue

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
    """The mailout was refused; nothing was sent. `each` holds every reason, `code` is that of the first.

    `issues` are the parts of the page that cannot be shown in an email.
    """

    code = "mailout_refused"

    def __init__(
        self,
        message: str,
        /,
        *,
        code: str,
        each: "Sequence[MailoutRefused]" = (),
        issues: Sequence[ContentIssue] = (),
        **values: Any,
    ) -> None:
        super().__init__(message, **values)
        self.code = code
        self.each: tuple[MailoutRefused, ...] = tuple(each) or (self,)
        self.issues: tuple[ContentIssue, ...] = (*issues, *(issue for one in each for issue in one.issues))


def combine(faults: Sequence[MailoutRefused]) -> MailoutRefused:
    """Combine several refusals into one, in their order."""
    return MailoutRefused(lazy_join(" ", [fault.text for fault in faults]), code=faults[0].code, each=faults)


def no_subject() -> MailoutRefused:
    return MailoutRefused(
        "The page has no subject. Write one in Notion, then send the page again.", code=SUBJECT_REQUIRED
    )


def already_sent(how: str) -> MailoutRefused:
    return MailoutRefused(
        "This mailout was already sent: {how}. To send it again, duplicate the page in Notion, or tick Test.",
        code=ALREADY_SENT,
        how=how,
    )


def empty_body(issues: Sequence[ContentIssue] = ()) -> MailoutRefused:
    if not issues:
        return MailoutRefused(
            "The page has no visible content. Write some in Notion, then send the page again.", code=EMPTY_BODY
        )
    return MailoutRefused(
        "The page has no content that an email can show. Not supported: {types}. Write some text in Notion, then send "
        "the page again.",
        code=EMPTY_BODY,
        issues=issues,
        types=", ".join(dict.fromkeys(issue.type for issue in issues)),
    )


def no_test_property(name: str) -> MailoutRefused:
    return MailoutRefused(
        "The page has no property {name}, so a test would look like a real send. Add this checkbox in Notion, "
        "or set its name with NOTION_MAILOUT_PROPERTIES.",
        code=TEST_PROPERTY_MISSING,
        name=repr(name),
    )


def needs_real_trigger(status: str | None, real: str) -> MailoutRefused:
    return MailoutRefused(
        "The status {status} sends tests only, and Test is not ticked. Tick Test, or set the status {real} to send to "
        "everyone.",
        code=REAL_TRIGGER_REQUIRED,
        status=status,
        real=real,
    )


def only_local_mailbox() -> MailoutRefused:
    return MailoutRefused(
        "Email goes to the local mailbox only, so nobody would receive this mailout. Set MAILWRIGHT_PROVIDER to send "
        "it, or set MAILWRIGHT_MAILBOX_MAILOUTS=true to rehearse it into the local mailbox.",
        code=LOCAL_MAILBOX,
    )


def no_test_emails() -> MailoutRefused:
    return MailoutRefused(
        "The page is marked as a test, but TEST_EMAILS has no valid address. Set TEST_EMAILS.", code=TEST_EMAILS_EMPTY
    )


def no_footer(missing: tuple[str, ...]) -> MailoutRefused:
    return MailoutRefused(
        "The footer needs settings that are missing. Set {missing}.",
        code=FOOTER_ENV_MISSING,
        missing=", ".join(missing),
    )


def no_recipients(reason: str) -> MailoutRefused:
    return MailoutRefused("The mailout has no recipients: {reason}.", code=RECIPIENTS_EMPTY, reason=reason)


def unknown_list(list_key: str) -> MailoutRefused:
    return MailoutRefused(
        "MAILWRIGHT_MAILOUT_LIST names the list {list_key}, which does not exist. Create it, or change the setting.",
        code=LIST_NOT_FOUND,
        list_key=list_key,
    )


def sender_refused(reason: str) -> MailoutRefused:
    return MailoutRefused("{reason} After that, send the page again.", code=SENDER_DOMAIN, reason=reason)


def approval_rejected(reason: str) -> MailoutRefused:
    return MailoutRefused(reason, code=APPROVAL_REJECTED)


def sender_rules_unmet(reason: str) -> MailoutRefused:
    return MailoutRefused(
        "{reason} After that, send the page again, or override the rules now.", code=SENDER_RULES_UNMET, reason=reason
    )
