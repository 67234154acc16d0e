"""Meanings: the few things that an answer can say to us, whoever gave it. Each provider has a table of them."""

import re
from dataclasses import dataclass

from mailwright.domain.address import mask
from mailwright.domain.clock import Instant
from mailwright.domain.results import Category, ResultKind, SendResult

MAX_TEXT = 500

_ADDRESS = re.compile(r"[^\s@<>,:;'\"()\[\]]{1,64}@[^\s@<>,:;'\"()\[\]]{1,255}(?<!\.)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Meaning:
    provider: str
    kind: ResultKind
    code: str
    category: Category
    blames_provider: bool = False
    retry_after: Instant | None = None
    not_taken: bool = True

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
            not_taken=self.not_taken,
        )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What one provider's table is written in."""

    provider: str

    def failed(self, code: str, category: Category = Category.PERMANENT) -> Meaning:
        blames = category is Category.CONFIGURATION
        return Meaning(self.provider, ResultKind.FAILED, code, category, blames_provider=blames)

    def retried(
        self, code: str, category: Category = Category.TRANSIENT, *, blame: bool = False, after: Instant | None = None
    ) -> Meaning:
        return Meaning(self.provider, ResultKind.RETRYABLE, code, category, blame, after)

    def unclear(self, code: str, category: Category = Category.TRANSIENT) -> Meaning:
        """It had the whole mail and says that it failed, but not when: it alone may be asked again."""
        return Meaning(self.provider, ResultKind.RETRYABLE, code, category, blames_provider=True, not_taken=False)

    def in_doubt(self, code: str, category: Category = Category.TIMEOUT) -> Meaning:
        return Meaning(self.provider, ResultKind.IN_DOUBT, code, category, blames_provider=True, not_taken=False)


def addresses_in(text: str) -> set[str]:
    return {found.lower() for found in _ADDRESS.findall(text)}


def one_line(text: str) -> str:
    """Fit for a log and a page: no control characters, and not endless."""
    return _CONTROL.sub(" ", text)[:2_000]


def numbered(status: int, text: str) -> str:
    """With the status before it, unless it begins with that anyway."""
    return text if text.startswith(f"{status} ") else f"{status} {text}"


def masked(text: str) -> str:
    """Without anybody's address."""
    return _ADDRESS.sub(lambda found: mask(found[0]), text)
