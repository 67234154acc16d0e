"""Why a mailout is not sent. Each code is stable, stands in the table of errors, and comes with what to do."""

from collections.abc import Sequence
from typing import Final

from mailwright.domain.errors import MailwrightError

SUBJECT_REQUIRED: Final = "subject_required"
ALREADY_SENT: Final = "mailout_already_sent"
EMPTY_BODY: Final = "empty_body"
TEST_EMAILS_EMPTY: Final = "test_emails_empty"
FOOTER_ENV_MISSING: Final = "footer_env_missing"
RECIPIENTS_EMPTY: Final = "recipients_empty"
CONTENT_INVALID: Final = "content_invalid"
NOT_CONFIGURED: Final = "mailouts_not_configured"


class MailoutRefused(MailwrightError):
    """Nothing of this mailout was sent. `each` has every fault by itself; the code is that of the first."""

    code = "mailout_refused"

    def __init__(self, code: str, message: str, each: "Sequence[MailoutRefused]" = ()) -> None:
        super().__init__(message)
        self.code = code
        self.each: tuple[MailoutRefused, ...] = tuple(each) or (self,)


def together(faults: Sequence[MailoutRefused]) -> MailoutRefused:
    """All of them as one refusal, in their order."""
    return MailoutRefused(faults[0].code, " ".join(str(fault) for fault in faults), faults)


def no_subject() -> MailoutRefused:
    return MailoutRefused(SUBJECT_REQUIRED, "The page has no subject: write one in Notion, then send it again.")


def already_sent(how: str) -> MailoutRefused:
    return MailoutRefused(
        ALREADY_SENT,
        f"This mailout went out before: {how}. Duplicate the page in Notion to send it once more, or tick Test.",
    )


def empty_body() -> MailoutRefused:
    return MailoutRefused(EMPTY_BODY, "There is nothing on the page that a reader could see: write it in Notion.")


def no_test_emails() -> MailoutRefused:
    return MailoutRefused(TEST_EMAILS_EMPTY, "The page is a test, and TEST_EMAILS has no address that could get it.")


def no_footer(missing: tuple[str, ...]) -> MailoutRefused:
    return MailoutRefused(FOOTER_ENV_MISSING, f"The footer needs settings that are not set: {', '.join(missing)}.")


def nobody_to_write_to(where: str) -> MailoutRefused:
    return MailoutRefused(RECIPIENTS_EMPTY, f"There is nobody to write to: {where}.")
