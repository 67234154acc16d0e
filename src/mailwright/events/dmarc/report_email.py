"""Find DMARC aggregate reports in emails by their content, because types and file names are unreliable."""

import re
from collections.abc import Sequence
from typing import Final

from mailwright.content.raw import readable_line
from mailwright.domain.clock import Instant
from mailwright.domain.dmarc import DmarcReport, RefusedReport
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.bounces import delivery_status, feedback
from mailwright.events.bounces.email_parts import EmailPart, split_parts
from mailwright.events.dmarc.parse import MAX_NAME, parse_file
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES, looks_like_report

# The size of the largest file in base64, and of the text around it.
MAX_EMAIL_BYTES: Final = 2 * MAX_FILE_BYTES
MAX_FILES: Final = 20
# The subject and the file names that RFC 7489 requires. A reply has another subject.
_SUBJECT: Final = re.compile(r"\s*report[\s_-]*domain\s*:", re.IGNORECASE)
_FILE_NAME: Final = re.compile(r"name\*?\d*\*?\s*=\s*\"?([^\";]{0,200}![^\";!]{1,253}!\d{6,12}!\d{6,12}[^\";]{0,200})")
_NAME: Final = re.compile(r"name\*?\s*=\s*\"?([^\";]{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReportEmail:
    """An email with aggregate reports. `sender` is its From header."""

    sender: str
    results: tuple[DmarcReport | RefusedReport, ...]


def parse_report_email(email: bytes, now: Instant) -> ReportEmail | None:
    """Return the reports in an email; None if it is another kind of email, such as a bounce or a reply."""
    parts = [part for part in split_parts(email, MAX_EMAIL_BYTES) if part.depth == 0]
    if not parts or any(_is_other_report(part) for part in parts):
        return None
    headers = parts[0].headers
    is_declared = bool(_SUBJECT.match(headers.first("subject")))
    results: list[DmarcReport | RefusedReport] = []
    for part in _files(parts):
        results += parse_file(part.content, now, _name(part))
        is_declared = is_declared or any(_FILE_NAME.search(each) for each in _named_in(part))
    if not is_declared and not any(isinstance(each, DmarcReport) or each.domain for each in results):
        return None
    if not results:
        results = [RefusedReport("The email contains no XML, gzip or zip file.")]
    return ReportEmail(readable_line(headers.first("from"))[:MAX_NAME], tuple(results))


def _is_other_report(part: EmailPart) -> bool:
    return part.content_type in delivery_status.CONTENT_TYPES or part.content_type == feedback.CONTENT_TYPE


def _files(parts: Sequence[EmailPart]) -> list[EmailPart]:
    single = (part for part in parts if not part.content_type.startswith(("multipart/", "message/")))
    return [part for part in single if looks_like_report(part.content)][:MAX_FILES]


def _named_in(part: EmailPart) -> list[str]:
    return [part.headers.first("content-disposition"), part.headers.first("content-type")]


def _name(part: EmailPart) -> str:
    found = next((match for each in _named_in(part) if (match := _NAME.search(each))), None)
    return readable_line(found[1].strip()) if found else ""
