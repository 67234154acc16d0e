"""Results that the response tables of the providers share."""

import re
from dataclasses import replace

from mailwright.domain.address import mask
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult

MAX_TEXT = 500

_ADDRESS = re.compile(r"[^\s@<>,:;'\"()\[\]]{1,64}@[^\s@<>,:;'\"()\[\]]{1,255}(?<!\.)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class ResultTemplate:
    provider: str
    kind: ResultKind
    code: str
    category: ErrorCategory
    blames_provider: bool = False
    retry_after: Instant | None = None
    definitely_not_sent: bool = True
    is_deferral: bool = False
    is_completed: bool = True

    def result(self, message: str, original_code: str | None = None, retry_after: Instant | None = None) -> SendResult:
        """Create the result. A pause that the provider requests can only lengthen the default pause."""
        return SendResult(
            self.kind,
            self.provider,
            code=self.code,
            category=self.category,
            message=message[:MAX_TEXT],
            original_code=original_code,
            retry_after=max(retry_after or 0, self.retry_after or 0) or None,
            blames_provider=self.blames_provider,
            is_deferral=self.is_deferral,
            definitely_not_sent=self.definitely_not_sent,
            is_completed=self.is_completed,
        )


@dataclass(frozen=True, slots=True)
class ResultTemplates:
    """Creates the result templates for one provider's response table."""

    provider: str

    def failed(self, code: str, category: ErrorCategory = ErrorCategory.PERMANENT) -> ResultTemplate:
        blames = category is ErrorCategory.CONFIGURATION
        return ResultTemplate(self.provider, ResultKind.FAILED, code, category, blames_provider=blames)

    def paused(self, code: str) -> ResultTemplate:
        """The provider paused our account. The message is not at fault, so it waits for the account."""
        return replace(self.failed(code), blames_provider=True)

    def retried(
        self,
        code: str,
        category: ErrorCategory = ErrorCategory.TRANSIENT,
        *,
        blame: bool = False,
        after: Instant | None = None,
    ) -> ResultTemplate:
        """The provider did not accept the message. If the provider caused the failure, this is a deferral."""
        return ResultTemplate(self.provider, ResultKind.RETRYABLE, code, category, blame, after, is_deferral=blame)

    def not_called(self, code: str, *, blame: bool) -> ResultTemplate:
        """The provider was not called, so the attempt has no number."""
        return replace(self.retried(code, blame=blame), is_completed=False)

    def unclear(
        self, code: str, category: ErrorCategory = ErrorCategory.TRANSIENT, *, is_deferral: bool = True
    ) -> ResultTemplate:
        """The provider failed after it had the whole message, so no other provider may send it."""
        return ResultTemplate(
            self.provider,
            ResultKind.RETRYABLE,
            code,
            category,
            blames_provider=True,
            definitely_not_sent=False,
            is_deferral=is_deferral,
        )

    def in_doubt(self, code: str, category: ErrorCategory = ErrorCategory.TIMEOUT) -> ResultTemplate:
        return ResultTemplate(
            self.provider, ResultKind.IN_DOUBT, code, category, blames_provider=True, definitely_not_sent=False
        )


def addresses_in(text: str) -> set[str]:
    return {found.lower() for found in _ADDRESS.findall(text)}


def one_line(text: str) -> str:
    """Make text safe for logs and pages: no control characters, single blanks, limited length."""
    return " ".join(_CONTROL.sub(" ", text).split())[:2_000]


def with_status(status: int, text: str) -> str:
    """Prefix the text with the status, unless the text already begins with it."""
    return text if text.startswith(f"{status} ") else f"{status} {text}"


def mask_addresses(text: str) -> str:
    """Mask all addresses in a text."""
    return _ADDRESS.sub(lambda found: mask(found[0]), text)
