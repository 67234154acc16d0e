"""Convert between the campaign form and a campaign definition.

Form fields have the names of the API, for example `content.subject`, so that each API error appears beside its field.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.guard_rails import GuardRailSettings
from mailwright.schemas.campaigns import CampaignRefused, CampaignRequest
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.dashboard.forms import Errors, Fields, field_errors

NUMERIC_LIMITS: Final = ("ratePerSecond", "ratePerHour", "dailyLimit", "intervalMs")
TEXT_LIMITS: Final = ("workingHours", "timezone", "ignoreFrequencyCap")
BOOLEAN_LIMITS: Final = ("warmup", "inReadersTimeZone", "oneAtATime")
GUARD_RAILS: Final = tuple(field.alias or name for name, field in GuardRailSettings.model_fields.items())
MAX_VARIANTS: Final = 5
# These fields keep their whitespace; all others are stripped.
VERBATIM: Final = (
    "content.body",
    "content.text",
    *(f"experiment.variants[{each}].body" for each in range(MAX_VARIANTS)),
)

UTM: Final = ("source", "medium", "campaign", "term", "content")
# API fields without a form field of their own: the form field that shows their errors.
_BESIDE: Final = {"content": "content.body", "experiment": "experiment.variants[0].name", "filter": "segment"}
_LOCAL_TIME: Final = "%Y-%m-%dT%H:%M"


def definition_of(
    form: Fields, lists: Sequence[str], zone: tzinfo, saved: CampaignDefinition | None = None
) -> CampaignDefinition:
    """Parse the form. The filter has no form field and is taken from the saved draft."""
    body = {
        "name": form["name"],
        "content": _content(form),
        "lists": list(lists),
        "segment": form["segment"],
        "filter": saved.filter if saved is not None else None,
        "from": form["from"],
        "replyTo": form["replyTo"],
        "variables": variables_of(form["variables"]),
        "limits": _limits(form),
        "experiment": _experiment(form) if form["experiment"] else None,
        "scheduledAt": utc_text(form["scheduledAt"], zone),
        "tracking": form["tracking"],
        "utm": {name: value for name in UTM if (value := form[f"utm.{name}"])} or None,
        "waves": _waves(form) if form["waves"] else None,
    }
    return parse_strict(CampaignRequest, _given(body))


def limits_of(form: Fields) -> CampaignLimits:
    # Parsed inside a definition, so that errors have the field names of this form.
    body = {"name": "limits", "content": {"subject": "limits", "body": "limits"}, "limits": _limits(form)}
    return parse_strict(CampaignRequest, body).limits


def fields_from(definition: CampaignDefinition, zone: tzinfo) -> Fields:
    content, experiment = definition.content, definition.ab_test
    fields: dict[str, Any] = {
        "name": definition.name,
        "content.subject": content.subject,
        "content.preheader": content.preheader,
        "content.format": content.format,
        "content.body": content.body,
        "content.text": content.text,
        "content.templateId": content.template_id,
        "segment": definition.segment,
        "from": definition.sender,
        "replyTo": definition.reply_to,
        "variables": variables_text(definition.variables),
        "scheduledAt": local_time(definition.scheduled_at, zone),
    }
    fields["tracking"] = definition.tracking
    if (waves := definition.waves) is not None:
        percents = ", ".join(map(str, waves.percents))
        fields |= {"waves": "yes", "waves.percents": percents, "waves.waitMinutes": waves.wait_minutes}
    if definition.utm is not None:
        fields |= {f"utm.{name}": value for name, value in definition.utm.model_dump().items()}
    limits = definition.limits.model_dump(mode="json", by_alias=True)
    limits |= {f"guardRails.{name}": value for name, value in (limits.pop("guardRails") or {}).items()}
    fields |= {f"limits.{name}": value for name, value in limits.items() if value is not None and value is not False}
    if experiment is not None:
        fields |= {"experiment": "yes", "experiment.testPercent": experiment.test_percent}
        fields |= {"experiment.waitMinutes": experiment.wait_minutes, "experiment.winnerBy": experiment.winner_by}
        fields |= {"experiment.minConfidence": experiment.min_confidence}
        fields |= {"experiment.ifUndecided": experiment.if_undecided or ""}
        for number, variant in enumerate(experiment.variants):
            for name, value in variant.model_dump(by_alias=True).items():
                fields[f"experiment.variants[{number}].{name}"] = value
    return Fields({name: "yes" if value is True else str(value) for name, value in fields.items() if value is not None})


def variant_rows(form: Mapping[str, str]) -> int:
    """Return the number of variant rows: the filled ones plus an empty one."""
    filled = [
        number
        for number in range(MAX_VARIANTS)
        if any(form[f"experiment.variants[{number}].{name}"] for name in ("name", "subject", "body"))
    ]
    return min(MAX_VARIANTS, max(2, max(filled, default=-1) + 2))


def field_errors_of(error: MailwrightError) -> Errors:
    """Return the errors by form field."""
    found = field_errors(CampaignRefused(error) if isinstance(error, CampaignNotStartable) else error, _BESIDE)
    return Errors({name.partition("[")[0] if name.startswith("lists[") else name: text for name, text in found.items()})


def variables_of(text: str) -> dict[str, Any]:
    """Parse lines of `name = value`. A value that is valid JSON is decoded; any other value is a text."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise InvalidInput(f"Line {number} must have the form name = value.", field="variables")
        try:
            found[name.strip()] = orjson.loads(value)
        except ValueError:
            found[name.strip()] = value.strip()
    return found


def variables_text(variables: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {_value_text(value)}" for name, value in variables.items())


def utc_text(text: str, zone: tzinfo) -> str | None:
    """Convert the value of a datetime field, which has no time zone, from the viewer's zone to UTC."""
    if not text:
        return None
    try:
        local_time = datetime.fromisoformat(text)
    except ValueError:
        return text  # The API rejects this value.
    return local_time.replace(tzinfo=zone).astimezone(UTC).isoformat() if local_time.tzinfo is None else text


def local_time(instant: Instant | None, zone: tzinfo) -> str | None:
    return None if instant is None else datetime.fromtimestamp(instant / 1000, zone).strftime(_LOCAL_TIME)


def _content(form: Fields) -> dict[str, Any]:
    subject, preheader = form["content.subject"], form["content.preheader"]
    if form["content.templateId"]:
        return _given({"subject": subject, "preheader": preheader, "templateId": form["content.templateId"]})
    # Include an empty subject and body too, so that the error appears beside its field.
    written = {"subject": subject, "body": _lines(form["content.body"])}
    text = _lines(form["content.text"]) if form["content.text"].strip() else ""
    return {**_given({"preheader": preheader, "format": form["content.format"] or "html", "text": text}), **written}


def _limits(form: Fields) -> dict[str, Any]:
    numbers = {name: _number(form[f"limits.{name}"]) for name in NUMERIC_LIMITS}
    words = {name: form[f"limits.{name}"] for name in TEXT_LIMITS}
    ticked = {name: True for name in BOOLEAN_LIMITS if form[f"limits.{name}"]}
    rails = _given({name: _decimal(form[f"limits.guardRails.{name}"]) for name in GUARD_RAILS})
    return _given({**numbers, **words, **ticked, "guardRails": rails or None})


def _waves(form: Fields) -> dict[str, Any]:
    parts = [part.strip().removesuffix("%").strip() for part in form["waves.percents"].split(",") if part.strip()]
    return _given({"percents": [_number(part) for part in parts], "waitMinutes": _number(form["waves.waitMinutes"])})


def tenant_rails_of(form: Fields) -> str | None:
    """Return the guard rails of the tenant's form as JSON, or None if all fields are empty."""
    rails = _given({name: _decimal(form[f"guardRails.{name}"]) for name in GUARD_RAILS})
    return orjson.dumps(rails).decode() if rails else None


def tenant_rails_fields(stored: str | None) -> dict[str, Any]:
    rails = {} if stored is None else orjson.loads(stored)
    return {f"guardRails.{name}": rails.get(name) for name in GUARD_RAILS}


def _experiment(form: Fields) -> dict[str, Any]:
    variants = []
    for number in range(MAX_VARIANTS):
        said = {name: form[f"experiment.variants[{number}].{name}"] for name in ("name", "subject", "body")}
        if any(each.strip() for each in said.values()):
            variants.append(
                {"name": said["name"], **_given({"subject": said["subject"], "body": _lines(said["body"])})}
            )
    return {
        "variants": variants,
        **_given(
            {
                "testPercent": _number(form["experiment.testPercent"]),
                "waitMinutes": _number(form["experiment.waitMinutes"]),
                "winnerBy": form["experiment.winnerBy"],
                "minConfidence": _number(form["experiment.minConfidence"]),
                "ifUndecided": form["experiment.ifUndecided"] or None,
            }
        ),
    }


def _number(text: str) -> int | str:
    """Return a number, or the text itself, which the API rejects."""
    plain = text.replace(" ", "").replace("\u202f", "")
    digits = plain.removeprefix("-")
    return int(plain) if digits.isascii() and digits.isdecimal() and len(digits) <= 12 else text


def _decimal(text: str) -> float | int | str:
    """Return a number with a decimal point or comma, or the text itself."""
    number = _number(text)
    if not isinstance(number, str):
        return number
    try:
        return float(number.strip().replace(",", "."))
    except ValueError:
        return text


def _lines(text: str) -> str:
    """Convert CRLF, which browsers send, to LF."""
    return text.replace("\r\n", "\n")


def _value_text(value: Any) -> str:
    if not isinstance(value, str):
        return orjson.dumps(value).decode()
    try:
        orjson.loads(value)
    except ValueError:
        return value if value == value.strip() and "\n" not in value else orjson.dumps(value).decode()
    return orjson.dumps(value).decode()  # Quote a text that looks like JSON.


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
