"""Writing: what somebody wrote down as a slice, checked field by field, whether it came by API, Markdown or CSV."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Final

from mailwright.content import html as html_rules
from mailwright.content.headers import find_unwritable
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.errors import InvalidInput
from mailwright.sources.articles import divisions
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.placeholders import has_code

KEY_PATTERN: Final = r"[a-z0-9-]+"
MAX_KEY_LENGTH: Final = 63
MAX_TITLE_LENGTH: Final = 150  # a title is the subject of a mail
MAX_DEK_LENGTH: Final = 500
MAX_URL_LENGTH: Final = 2_000
MAX_BODY_BYTES: Final = 128 * 1024
MAX_TAGS: Final = 50
MAX_NUMBER: Final = 1_000_000

# As the columns of a file and the fields of a request are called.
FIELDS: Final = (
    "article_key",
    "section_order",
    "sort_index",
    "is_headline",
    "title",
    "dek",
    "body_md",
    "link_url",
    "scope_ocd_id",
    "tags",
    "publish_status",
    "publish_at",
    "expires_at",
)

_KEY: Final = re.compile(KEY_PATTERN)
_URL: Final = re.compile(r"https?://[^\s<>\"]+")
_NUMBER: Final = re.compile(r"-?\d{1,7}")
_YES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
_BETWEEN_TAGS: Final = re.compile(r"\s*[,;|]\s*")


@dataclass(frozen=True, slots=True)
class SliceProblem:
    field: str
    code: str
    message: str


class SliceRefused(InvalidInput):
    """The slice cannot be kept."""

    code = "SLICE_REFUSED"

    def __init__(self, problems: Sequence[SliceProblem]) -> None:
        super().__init__("; ".join(f"{each.field}: {each.message}" for each in problems), field=problems[0].field)
        self.problems = tuple(problems)


def parse_slice(given: Mapping[str, Any], *, slice_id: str = "") -> Slice:
    """Everything that is wrong is told at once. Numbers, yes and no, and times may be texts, as files have them."""
    problems = [
        SliceProblem(str(name), "UNKNOWN_FIELD", f"is no field of a slice; there are {', '.join(FIELDS)}")
        for name in given
        if name not in FIELDS
    ]
    found: dict[str, Any] = {}
    for name, read in _READ.items():
        value = given.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            found[name] = read(value, name)
        except InvalidInput as error:
            problems.append(SliceProblem(name, error.code, str(error)))
    problems += _as_a_whole(found, {each.field for each in problems})
    if problems:
        raise SliceRefused(problems)
    return Slice(slice_id=slice_id, **found)


def key(value: Any, field: str) -> str:
    text = _text(value)
    if not _KEY.fullmatch(text) or len(text) > MAX_KEY_LENGTH:
        raise InvalidInput(f"has 1 to {MAX_KEY_LENGTH} of a-z, 0-9 and -, as in spring-2027", field=field)
    return text


def _as_a_whole(found: Mapping[str, Any], told: set[str]) -> list[SliceProblem]:
    problems = []
    if "article_key" not in found and "article_key" not in told:
        problems.append(SliceProblem("article_key", "MISSING", "is missing: which article does the slice belong to?"))
    if not found.keys() & {"title", "dek", "body_md"} and not told & {"title", "dek", "body_md"}:
        problems.append(SliceProblem("body_md", "MISSING", "is missing: the slice says nothing"))
    if found.get("is_headline") and "title" not in found and "title" not in told:
        problems.append(SliceProblem("title", "MISSING", "is missing: a headline has a title"))
    begins, ends = found.get("publish_at"), found.get("expires_at")
    if begins is not None and ends is not None and ends <= begins:
        problems.append(SliceProblem("expires_at", "INVALID", "comes before publish_at: nobody would ever get it"))
    return problems


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput("is not a text")


def _line(longest: int) -> Any:
    def read(value: Any, _: str) -> str:
        text = _without_code(_text(value))
        if what := find_unwritable(text):
            raise InvalidInput(f"contains {what}")
        if len(text) > longest:
            raise InvalidInput(f"is longer than {longest} characters")
        return text

    return read


def _body(value: Any, _: str) -> str:
    text = _without_code(_text(value).replace("\r\n", "\n").replace("\r", "\n"))
    if "\x00" in text:
        raise InvalidInput("contains a NUL character")
    if len(text.encode("utf-8", "replace")) > MAX_BODY_BYTES:
        raise InvalidInput(f"is larger than {MAX_BODY_BYTES // 1024} KB")
    return text


def _without_code(text: str) -> str:
    if has_code(text):
        raise InvalidInput(
            "has {{, {% or {#; what differs from reader to reader is written [[name]] or [[name|friend]]"
        )
    return text


def _url(value: Any, _: str) -> str:
    text = _text(value)
    if not _URL.fullmatch(text) or len(text) > MAX_URL_LENGTH or html_rules.dangerous_url(text) or has_code(text):
        raise InvalidInput("is no link, as https://example.com/story")
    return text


def _number(value: Any, _: str) -> int:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise InvalidInput(f"is no whole number up to {MAX_NUMBER:,}")
    return value


def _yes_or_no(value: Any, _: str) -> bool:
    if isinstance(value, bool):
        return value
    answer = _YES.get(str(value).strip().lower())
    if answer is None:
        raise InvalidInput("is neither true nor false")
    return answer


def _scope(value: Any, field: str) -> str:
    return divisions.parse(_text(value), field=field)


def _tags(value: Any, _: str) -> tuple[str, ...]:
    texts = _BETWEEN_TAGS.split(value) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise InvalidInput("is neither a list of texts nor a text with commas in it")
    found = tuple(sorted({each.strip().lower() for each in texts if each.strip()}))
    if len(found) > MAX_TAGS or any(len(each) > MAX_KEY_LENGTH or not each.isprintable() for each in found):
        raise InvalidInput(f"has more than {MAX_TAGS} tags, or one of more than {MAX_KEY_LENGTH} characters")
    return found


def _status(value: Any, _: str) -> PublishStatus:
    try:
        return PublishStatus(str(value).strip().lower())
    except ValueError as error:
        raise InvalidInput(f"is none of {', '.join(PublishStatus)}") from error


def _moment(value: Any, _: str) -> Instant:
    """YAML reads times by itself. A time without a zone is in UTC, a day begins at midnight."""
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise InvalidInput("must look like 2027-01-15T08:00:00Z") from error
    elif isinstance(value, date) and not isinstance(value, datetime):
        moment = datetime.combine(value, time())
    if not isinstance(moment, datetime):
        raise InvalidInput("must look like 2027-01-15T08:00:00Z")
    try:
        instant = to_instant(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except OverflowError as error:
        raise InvalidInput("must be between the years 1970 and 9999") from error
    if not 0 <= instant < _YEAR_9999:
        raise InvalidInput("must be between the years 1970 and 9999")
    return instant


_YEAR_9999: Final[Instant] = 253_370_764_800_000
_READ: Final = {
    "article_key": key,
    "section_order": _number,
    "sort_index": _number,
    "is_headline": _yes_or_no,
    "title": _line(MAX_TITLE_LENGTH),
    "dek": _line(MAX_DEK_LENGTH),
    "body_md": _body,
    "link_url": _url,
    "scope_ocd_id": _scope,
    "tags": _tags,
    "publish_status": _status,
    "publish_at": _moment,
    "expires_at": _moment,
}
