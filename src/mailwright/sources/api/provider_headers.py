"""Read the headers that set options on the SMTP server of another email service.

Mailwright reads and removes them, so that an application that used such a server needs no change. A header with any
other option is refused, because it could add recipients without a check for suppressions.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Never

import orjson

from mailwright.content.headers import PROVIDER_METADATA_PREFIX, find_unwritable
from mailwright.content.raw import HeaderField, readable_line
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.api.fields import MAX_DEPTH, MAX_METADATA_BYTES, MAX_TAG_CHARACTERS, is_deeper_than
from mailwright.sources.api.validation import FieldError, RequestInvalid

MAX_TAGS: Final = 20
_OFF: Final = frozenset({"false", "none", "no", "off"})
_SES_TAG: Final = re.compile(r"\s*([^=,]+?)\s*=\s*([^=,]+?)\s*")


@dataclass(slots=True)
class ProviderOptions:
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    list_key: str | None = None
    list_header: str = ""  # The header that names the list.


def read_provider_headers(fields: Collection[HeaderField]) -> ProviderOptions:
    """Return the options, or raise `RequestInvalid` with the name of the header."""
    options = ProviderOptions()
    for each in fields:
        _read(each.name, readable_line(each.value), options)
        _check(each.name, options)
    return options


def _check(name: str, options: ProviderOptions) -> None:
    if len(options.tags) > MAX_TAGS or not all(0 < len(tag) <= MAX_TAG_CHARACTERS for tag in options.tags):
        _refuse(name, f"must have at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARACTERS} characters")
    if find_unwritable("".join(options.tags)):
        _refuse(name, "must not have control characters in tags")
    if is_deeper_than(options.metadata, MAX_DEPTH) or len(orjson.dumps(options.metadata)) > MAX_METADATA_BYTES:
        _refuse(name, f"must have at most {MAX_METADATA_BYTES // 1024} KB, and {MAX_DEPTH} levels")


def join_tags(own: Sequence[str] | None, options: ProviderOptions) -> list[str]:
    """Return the tags of `X-Mailwright-Tags` and those of the options."""
    tags = [*(own or ()), *options.tags]
    if len(tags) > MAX_TAGS:
        _refuse("x-mailwright-tags", f"and the other headers must have at most {MAX_TAGS} tags together")
    return tags


def _read(name: str, value: str, options: ProviderOptions) -> None:
    match name:
        case "x-pm-tag" | "x-mailgun-tag":
            options.tags.append(value)
        case "x-mc-tags":
            options.tags += [tag.strip() for tag in value.split(",") if tag.strip()]
        case "x-mailgun-variables" | "x-mc-metadata":
            options.metadata |= _json(name, value)
        case "x-ses-configuration-set":
            options.metadata["ses:configuration-set"] = value
        case "x-ses-message-tags":
            options.metadata |= dict(_ses_tags(name, value))
        case "x-pm-message-stream":
            if value != "outbound":
                options.list_key, options.list_header = value, name.title()
        case "x-pm-keepid":
            pass  # The Message-ID is always kept.
        case "x-smtpapi":
            _read_smtpapi(name, _json(name, value), options)
        case _ if name.startswith(PROVIDER_METADATA_PREFIX):
            options.metadata[name.removeprefix(PROVIDER_METADATA_PREFIX)] = value
        case _ if value.lower() not in _OFF:  # All other headers of `PROVIDER_OPTIONS` are about tracking.
            _refuse(name, "must be off: a raw email is sent unchanged, so its links cannot be tracked")


def _read_smtpapi(name: str, given: Mapping[str, Any], options: ProviderOptions) -> None:
    """Read SendGrid's header. Its other keys change recipients and content."""
    if unknown := given.keys() - {"category", "unique_args", "asm_group_id"}:
        _refuse(name, f"may have category, unique_args and asm_group_id, but not {min(unknown)[:40]!r}")
    category, arguments = given.get("category", []), given.get("unique_args", {})
    categories = [category] if isinstance(category, str) else category
    if not isinstance(categories, list) or not all(isinstance(tag, str) and tag for tag in categories):
        _refuse(name, "must have a text, or a list of texts, in category")
    if not isinstance(arguments, dict) or not isinstance(given.get("asm_group_id", 0), int):
        _refuse(name, "must have an object in unique_args, and a number in asm_group_id")
    options.tags += categories
    options.metadata |= arguments
    if "asm_group_id" in given:
        options.list_key, options.list_header = str(given["asm_group_id"]), name.title()


def _ses_tags(name: str, value: str) -> Iterator[tuple[str, str]]:
    for part in value.split(","):
        found = _SES_TAG.fullmatch(part)
        if found is None:
            _refuse(name, "must look like name=value, name=value")
        yield found[1], found[2]


def _json(name: str, value: str) -> dict[str, Any]:
    try:
        found = load_json(value)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        _refuse(name, "must be a JSON object")
    return found


def _refuse(name: str, reason: str) -> Never:
    raise RequestInvalid([FieldError(name.title(), "INVALID", reason)])
