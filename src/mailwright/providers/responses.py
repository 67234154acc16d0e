"""Meanings: the few things that an answer can say to us, whoever gave it. Each provider has a table of them."""

import re
from dataclasses import dataclass

from mailwright.domain.address import mask
from mailwright.domain.clock import Instant
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

    def result(self, message: str, original_code: str | None = None, retry_after: Instant | None = None) -> SendResult:
        """A pause that the provider asks for lengthens ours, and never shortens it."""
        return SendResult(
            self.kind,
            self.provider,
            code=self.code,
            category=self.category,
            message=message[:MAX_TEXT],
            original_code=original_code,
            retry_after=max(retry_after or 0, self.retry_after or 0) or None,
            blames_provider=self.blames_provider,
            definitely_not_sent=self.definitely_not_sent,
        )


@dataclass(frozen=True, slots=True)
class ResultTemplates:
    """What one provider's table is written in."""

    provider: str

    def failed(self, code: str, category: ErrorCategory = ErrorCategory.PERMANENT) -> ResultTemplate:
        blames = category is ErrorCategory.CONFIGURATION
        return ResultTemplate(self.provider, ResultKind.FAILED, code, category, blames_provider=blames)

    def retried(
        self,
        code: str,
        category: ErrorCategory = ErrorCategory.TRANSIENT,
        *,
        blame: bool = False,
        after: Instant | None = None,
    ) -> ResultTemplate:
        return ResultTemplate(self.provider, ResultKind.RETRYABLE, code, category, blame, after)

    def unclear(self, code: str, category: ErrorCategory = ErrorCategory.TRANSIENT) -> ResultTemplate:
        """It had the whole mail and says that it failed, but not when: it alone may be asked again."""
        return ResultTemplate(
            self.provider, ResultKind.RETRYABLE, code, category, blames_provider=True, definitely_not_sent=False
        )

    def in_doubt(self, code: str, category: ErrorCategory = ErrorCategory.TIMEOUT) -> ResultTemplate:
        return ResultTemplate(
            self.provider, ResultKind.IN_DOUBT, code, category, blames_provider=True, definitely_not_sent=False
        )


def addresses_in(text: str) -> set[str]:
    return {found.lower() for found in _ADDRESS.findall(text)}


def one_line(text: str) -> str:
    """Fit for a log and a page: no control characters, and not endless."""
    return _CONTROL.sub(" ", text)[:2_000]


def with_status(status: int, text: str) -> str:
    """With the status before it, unless it begins with that anyway."""
    return text if text.startswith(f"{status} ") else f"{status} {text}"


def mask_addresses(text: str) -> str:
    """Without anybody's address."""
    return _ADDRESS.sub(lambda found: mask(found[0]), text)
