"""Parse and validate the fields of a slice, for the API, Markdown files and CSV files alike."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final

from mailwright.content import html as html_rules
from mailwright.content.headers import find_unwritable
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_number, lazy_text
from mailwright.sources.articles import divisions
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.placeholders import has_code

KEY_PATTERN: Final = r"[a-z0-9-]+"
MAX_KEY_LENGTH: Final = 63
MAX_TITLE_LENGTH: Final = 150  # a title becomes the subject of an email
MAX_DEK_LENGTH: Final = 500
MAX_URL_LENGTH: Final = 2_000
MAX_BODY_BYTES: Final = 128 * 1024
MAX_TAGS: Final = 50
MAX_NUMBER: Final = 1_000_000

# The names of CSV columns and of request fields.
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
_BOOLEANS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
_BETWEEN_TAGS: Final = re.compile(r"\s*[,;|]\s*")


@dataclass(frozen=True, slots=True)
class SliceProblem:
    field: str
    code: str
    message: str


class SliceRefused(InvalidInput):
    """The slice is invalid."""

    code = "SLICE_REFUSED"

    def __init__(self, problems: Sequence[SliceProblem]) -> None:
        super().__init__(
            lazy_text(lambda: "; ".join(f"{each.field}: {each.message}" for each in problems)), field=problems[0].field
        )
        self.problems = tuple(problems)


def parse_slice(given: Mapping[str, Any], *, slice_id: str = "") -> Slice:
    """Parse a slice, or raise all its problems at once. Numbers, booleans and times may be text, as in files."""
    problems = [
        SliceProblem(
            str(name),
            "UNKNOWN_FIELD",
            lazy_gettext("is not a field of a slice; the fields are {fields}", fields=", ".join(FIELDS)),
        )
        for name in given
        if name not in FIELDS
    ]
    values: dict[str, Any] = {}
    for name, read in _READ.items():
        value = given.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            values[name] = read(value, name)
        except InvalidInput as error:
            problems.append(SliceProblem(name, error.code, error.text))
    problems += _cross_field_problems(values, {each.field for each in problems})
    if problems:
        raise SliceRefused(problems)
    return Slice(slice_id=slice_id, **values)


def parse_key(value: Any, field: str) -> str:
    text = _text(value)
    if not _KEY.fullmatch(text) or len(text) > MAX_KEY_LENGTH:
        raise InvalidInput(
            "must have 1 to {max_length} characters from a-z, 0-9 and -, for example spring-2027",
            max_length=MAX_KEY_LENGTH,
            field=field,
        )
    return text


def _cross_field_problems(values: Mapping[str, Any], reported: set[str]) -> list[SliceProblem]:
    problems = []
    if "article_key" not in values and "article_key" not in reported:
        problems.append(
            SliceProblem("article_key", "MISSING", lazy_gettext("is missing: set the key of the slice's article"))
        )
    if not values.keys() & {"title", "dek", "body_md"} and not reported & {"title", "dek", "body_md"}:
        problems.append(
            SliceProblem("body_md", "MISSING", lazy_gettext("is missing: a slice needs a title, a dek or a body"))
        )
    if values.get("is_headline") and "title" not in values and "title" not in reported:
        problems.append(SliceProblem("title", "MISSING", lazy_gettext("is missing: a headline needs a title")))
    begins, ends = values.get("publish_at"), values.get("expires_at")
    if begins is not None and ends is not None and ends <= begins:
        problems.append(SliceProblem("expires_at", "INVALID", lazy_gettext("must be later than publish_at")))
    return problems


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput("must be text")


def _line(longest: int) -> Any:
    def read(value: Any, _: str) -> str:
        text = _without_code(_text(value))
        if what := find_unwritable(text):
            raise InvalidInput("contains {what}", what=what)
        if len(text) > longest:
            raise InvalidInput("is longer than {longest} characters", longest=longest)
        return text

    return read


def _body(value: Any, _: str) -> str:
    text = _without_code(_text(value).replace("\r\n", "\n").replace("\r", "\n"))
    if "\x00" in text:
        raise InvalidInput("contains a NUL character")
    if len(text.encode("utf-8", "replace")) > MAX_BODY_BYTES:
        raise InvalidInput("is larger than {max_body_bytes} KB", max_body_bytes=MAX_BODY_BYTES // 1024)
    return text


def _without_code(text: str) -> str:
    if has_code(text):
        raise InvalidInput(
            "must not contain {marks}; write placeholders as {examples}",
            marks="{{, {% or {#",
            examples="[[name]] or [[name|friend]]",
        )
    return text


def _url(value: Any, _: str) -> str:
    text = _text(value)
    if not _URL.fullmatch(text) or len(text) > MAX_URL_LENGTH or html_rules.dangerous_url(text) or has_code(text):
        raise InvalidInput("must be a link, for example https://example.com/story")
    return text


def _number(value: Any, _: str) -> int:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise InvalidInput("must be a whole number up to {max_number}", max_number=lazy_number(MAX_NUMBER))
    return value


def _boolean(value: Any, _: str) -> bool:
    if isinstance(value, bool):
        return value
    parsed = _BOOLEANS.get(str(value).strip().lower())
    if parsed is None:
        raise InvalidInput("must be true or false")
    return parsed


def _scope(value: Any, field: str) -> str:
    return divisions.parse(_text(value), field=field)


def _tags(value: Any, _: str) -> tuple[str, ...]:
    texts = _BETWEEN_TAGS.split(value) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise InvalidInput("must be a list of text, or text separated by commas")
    tags = tuple(sorted({text.strip().lower() for text in texts if text.strip()}))
    if len(tags) > MAX_TAGS or any(len(tag) > MAX_KEY_LENGTH or not tag.isprintable() for tag in tags):
        raise InvalidInput(
            "must have at most {max_tags} tags of at most {max_key_length} characters",
            max_tags=MAX_TAGS,
            max_key_length=MAX_KEY_LENGTH,
        )
    return tags


def _status(value: Any, _: str) -> PublishStatus:
    try:
        return PublishStatus(str(value).strip().lower())
    except ValueError as error:
        raise InvalidInput("must be one of {publishstatus}", publishstatus=", ".join(PublishStatus)) from error


def _time(value: Any, _: str) -> Instant:
    """Parse a time, unless YAML has parsed it. A time without a zone is in UTC; a date means its midnight."""
    parsed = value
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise InvalidInput("must look like 2027-01-15T08:00:00Z") from error
    elif isinstance(value, date) and not isinstance(value, datetime):
        parsed = datetime.combine(value, time())
    if not isinstance(parsed, datetime):
        raise InvalidInput("must look like 2027-01-15T08:00:00Z")
    try:
        instant = to_instant(parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC))
    except OverflowError as error:
        raise InvalidInput("must be between the years 1970 and 9999") from error
    if not 0 <= instant < _YEAR_9999:
        raise InvalidInput("must be between the years 1970 and 9999")
    return instant


_YEAR_9999: Final[Instant] = 253_370_764_800_000
_READ: Final = {
    "article_key": parse_key,
    "section_order": _number,
    "sort_index": _number,
    "is_headline": _boolean,
    "title": _line(MAX_TITLE_LENGTH),
    "dek": _line(MAX_DEK_LENGTH),
    "body_md": _body,
    "link_url": _url,
    "scope_ocd_id": _scope,
    "tags": _tags,
    "publish_status": _status,
    "publish_at": _time,
    "expires_at": _time,
}
