"""Turn campaign options into a campaign definition of the HTTP API."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import typer

from mailwright.actions.campaigns import CampaignAttachmentResponse
from mailwright.cli.json_input import json_object
from mailwright.content.formats import TemplateFormat
from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json
from mailwright.sources.api.requests import parse_file
from mailwright.sources.campaigns.definition import UtmParameters

Options = Mapping[str, Any]

LIMITS: Final = (
    "rate_per_second",
    "rate_per_hour",
    "daily_limit",
    "working_hours",
    "timezone",
    "warmup",
    "in_readers_time_zone",
    "interval_ms",
    "one_at_a_time",
    "guard_rails",
    "ignore_frequency_cap",
)


def definition(options: Options) -> dict[str, Any]:
    """Build the definition from the options of `campaign create`."""
    filter_ = options["filter_"]
    return _without_none(
        {
            "name": options["name"],
            "content": _content(options),
            "lists": options["lists"] or [],
            "segment": options["segment"],
            "filter": None if filter_ is None else json_or_text(filter_),
            "excludeLists": options["exclude_lists"],
            "excludeSegments": options["exclude_segments"],
            "from": options["sender"],
            "replyTo": options["reply_to"],
            "variables": variables(options["values"] or []),
            "limits": limits(options),
            "experiment": _ab_test(options) if options["variants"] else None,
            "scheduledAt": options["schedule"],
            "tracking": options["tracking"],
            "utm": utm(options["utm"]) if options["utm"] else None,
            "waves": waves(options["waves"], options["wave_minutes"]),
        }
    )


def _content(options: Options) -> dict[str, Any]:
    files = {format_: options[format_] for format_ in TemplateFormat if options[format_] is not None}
    if len(files) + (options["template"] is not None) != 1:
        raise typer.BadParameter("give exactly one of --html, --mjml, --markdown, --blocks and --template")
    content: dict[str, Any] = {"subject": options["subject"], "templateId": options["template"]}
    for format_, file in files.items():
        content |= {"format": format_, "body": file.read()}
    if options["text"] is not None:
        content["text"] = options["text"].read_text(encoding="utf-8")
    return _without_none(content)


def _ab_test(options: Options) -> dict[str, Any]:
    return _without_none(
        {
            "variants": variants(options["variants"]),
            "testPercent": options["test_percent"],
            "waitMinutes": options["wait_minutes"],
            "winnerBy": options["winner_by"],
            "minConfidence": options["min_confidence"],
            "ifUndecided": options["if_undecided"],
        }
    )


def waves(percents: str | None, minutes: int | None) -> dict[str, Any] | None:
    """Parse `1,10`: the shares of the audience after each wave but the last."""
    if percents is None:
        return None
    parts = [part.strip().removesuffix("%").strip() for part in percents.split(",")]
    return _without_none({"percents": [json_or_text(part) for part in parts], "waitMinutes": minutes})


def limits(options: Options) -> dict[str, Any]:
    """Return the given limits under their API names; `none` removes a limit."""
    return {_camel(name): _limit(options[name]) for name in LIMITS if options[name] is not None}


def variables(given: list[str]) -> dict[str, Any]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidInput(f"{text!r} must look like `season=spring`", field="--var")
        found[name] = json_or_text(value)
    return found


def utm(given: list[str]) -> dict[str, str]:
    """Parse `source=newsletter`. The name may begin with `utm_`."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        name = name.strip().removeprefix("utm_")
        if name not in UtmParameters.model_fields or not value.strip():
            names = ", ".join(UtmParameters.model_fields)
            raise InvalidInput(f"{text!r} must look like `source=newsletter`; the names are {names}", field="--utm")
        if name in found:
            raise InvalidInput(f"{name} is given twice", field="--utm")
        found[name] = value.strip()
    return found


def variants(given: list[str]) -> list[dict[str, str]]:
    """Parse variants: `A` leaves the campaign unchanged, `B=Other subject` replaces the subject."""
    pairs = (text.partition("=") for text in given)
    return [{"name": name, **({"subject": subject} if sign else {})} for name, sign, subject in pairs]


def attachments(files: list[Path] | None) -> list[dict[str, Any]]:
    """Read files and return the requests that attach them. The types of all files are checked first."""
    given = [(file.name, file.read_bytes()) for file in files or ()]
    for name, content in given:
        parse_file(name, None, content)
    return [{"filename": name, "content": b64encode(content).decode()} for name, content in given]


def named_attachment(attachments: Sequence[CampaignAttachmentResponse], name: str) -> str:
    """Return the id of the campaign's attachment with this id or file name."""
    found = [each.attachment_id for each in attachments if name in (each.attachment_id, each.filename)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(f"Several attachments are named {name}; give the id: {', '.join(found)}.", field="detach")
    raise InvalidInput(f"The campaign has no attachment {name}.", field="detach")


def json_or_text(text: str) -> Any:
    """Read `3`, `true` and `["a"]` as JSON, anything else as text."""
    try:
        return load_json(text)
    except orjson.JSONDecodeError:
        return text


def _limit(value: str | bool) -> Any:
    if isinstance(value, bool):
        return value
    if value == "none":
        return None
    if value.startswith("{"):
        return json_object(value, "--guard-rails", example="`guardRails` in `campaign show --json`")
    digits = value.removeprefix("-")
    return int(value) if digits.isascii() and digits.isdecimal() else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
