"""Convert between the campaign form and a campaign definition.

Form fields have the names of the API, for example `content.subject`, so that each API error appears beside its field.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Final

import orjson
from fastapi import Request

from mailwright.actions.campaigns import CampaignDraftRequest, CampaignRefused
from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.foreign_json import load_json
from mailwright.domain.guard_rails import GuardRailSettings
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields, read_values
from mailwright.web.dashboard.hours_form import hours_fields, hours_text

NUMERIC_LIMITS: Final = ("ratePerSecond", "ratePerHour", "dailyLimit", "intervalMs")
TEXT_LIMITS: Final = ("timezone", "ignoreFrequencyCap")
BOOLEAN_LIMITS: Final = ("warmup", "inReadersTimeZone", "oneAtATime")
GUARD_RAILS: Final = tuple(field.alias or name for name, field in GuardRailSettings.model_fields.items())
MAX_VARIANTS: Final = 5
# These fields keep their whitespace; all others are stripped.
VERBATIM: Final = (
    "content.body",
    "content.text",
    *(f"experiment.variants[{each}].body" for each in range(MAX_VARIANTS)),
)

# Fields with several values. A form holds them as one text with commas.
_SEVERAL: Final = ("lists", "excludeLists", "excludeSegments", "hours.days")


class DraftStep(StrEnum):
    """The steps before the review. Each saves its own fields of the draft."""

    CONTENT = "content"
    AUDIENCE = "audience"
    SCHEDULE = "schedule"


# The fields of the definition that each step saves, and the prefixes of its form fields.
_SAVED: Final[Mapping[DraftStep, tuple[str, ...]]] = {
    DraftStep.CONTENT: ("name", "content", "variables", "ab_test", "tracking", "utm"),
    DraftStep.AUDIENCE: ("lists", "segment", "exclude_lists", "exclude_segments", "sender", "reply_to"),
    DraftStep.SCHEDULE: ("scheduled_at", "limits", "waves"),
}
_PREFIXES: Final[Mapping[DraftStep, tuple[str, ...]]] = {
    DraftStep.CONTENT: ("name", "content", "variables", "experiment", "tracking", "utm"),
    DraftStep.AUDIENCE: ("lists", "segment", "exclude", "from", "replyTo", "filter"),
    DraftStep.SCHEDULE: ("when", "scheduledAt", "limits", "hours", "waves"),
}
FIELD_LABELS: Final[Mapping[str, str]] = {
    "name": lazy_gettext("Name"),
    "content.subject": lazy_gettext("Subject"),
    "content.preheader": lazy_gettext("Preview text"),
    "content.templateId": lazy_gettext("Template"),
    "content.body": lazy_gettext("Body"),
    "content.text": lazy_gettext("Plain text"),
    "variables": lazy_gettext("Variables"),
    "lists": lazy_gettext("Lists"),
    "segment": lazy_gettext("Segment"),
    "excludeLists": lazy_gettext("Leave out lists"),
    "excludeSegments": lazy_gettext("Leave out segments"),
    "from": lazy_gettext("Sender address"),
    "from.name": lazy_gettext("Sender name"),
    "replyTo": lazy_gettext("Reply-to"),
    "scheduledAt": lazy_gettext("Date and time"),
    "hours.days": lazy_gettext("Sending hours"),
    "limits.workingHours": lazy_gettext("Sending hours"),
    "limits.timezone": lazy_gettext("Time zone"),
    "limits.ratePerSecond": lazy_gettext("Emails per second"),
    "limits.ratePerHour": lazy_gettext("Emails per hour"),
    "limits.dailyLimit": lazy_gettext("Emails per day"),
    "limits.intervalMs": lazy_gettext("Interval"),
    "limits.ignoreFrequencyCap": lazy_gettext("Frequency cap"),
    "waves.percents": lazy_gettext("Waves"),
    "waves.waitMinutes": lazy_gettext("Wait between waves"),
    "experiment.testPercent": lazy_gettext("Test group"),
    "experiment.waitMinutes": lazy_gettext("Test duration"),
    "experiment.minConfidence": lazy_gettext("Confidence"),
    "experiment.ifUndecided": lazy_gettext("Without a clear result"),
    "addresses": lazy_gettext("Test email"),
}

UTM: Final = ("source", "medium", "campaign", "term", "content")
# API fields without a form field of their own: the form field that shows their errors.
_BESIDE: Final = {
    "content": "content.body",
    "experiment": "experiment.variants[0].name",
    "filter": "segment",
    "limits.workingHours": "hours.days",
    "waves": "waves.percents",
}
_LOCAL_TIME: Final = "%Y-%m-%dT%H:%M"


def step_of(field: str) -> DraftStep:
    """Return the step that has this form field."""
    return next((step for step, prefixes in _PREFIXES.items() if field.startswith(prefixes)), DraftStep.CONTENT)


async def read_step(request: Request) -> Fields:
    """Read the form of a step."""
    form = await read_fields(request, verbatim=VERBATIM)
    for name in _SEVERAL:
        form[name] = ",".join(await read_values(request, name))
    return form


def saved_step(step: DraftStep, form: Fields, zone: tzinfo, saved: CampaignDefinition | None) -> CampaignDefinition:
    """Return the draft with the fields of one step replaced by those of the form.

    All fields are checked together, because some exclude each other. Only those of the step change.
    """
    if saved is None:
        return definition_of(form, zone)
    before = fields_from(saved, zone)
    merged = {name: value for name, value in before.items() if not name.startswith(_PREFIXES[step])}
    merged |= {name: value for name, value in form.items() if name.startswith(_PREFIXES[step])}
    parsed = definition_of(Fields(merged), zone)
    return saved.model_copy(update={name: getattr(parsed, name) for name in _SAVED[step]})


def definition_of(form: Fields, zone: tzinfo) -> CampaignDefinition:
    """Parse a form, in which everything but the name may be missing. The filter of a campaign has no form field."""
    body = {
        "name": form["name"],
        "content": _content(form),
        "lists": _several(form["lists"]),
        "segment": form["segment"],
        "excludeLists": _several(form["excludeLists"]),
        "excludeSegments": _several(form["excludeSegments"]),
        "from": _mailbox(form),
        "replyTo": form["replyTo"],
        "variables": variables_of(form["variables"]),
        "limits": _limits(form),
        "experiment": _experiment(form) if form["experiment"] else None,
        "scheduledAt": _send_time(form, zone),
        "tracking": form["tracking"],
        "utm": {name: value for name in UTM if (value := form[f"utm.{name}"])} or None,
        "waves": _waves(form) if form["waves"] else None,
    }
    return parse_strict(CampaignDraftRequest, _without_empty(body))


def limits_of(form: Fields) -> CampaignLimits:
    # Parsed inside a definition, so that errors have the field names of this form.
    return parse_strict(CampaignDraftRequest, {"name": "limits", "limits": _limits(form)}).limits


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
        "lists": ",".join(definition.lists),
        "segment": definition.segment,
        "excludeLists": ",".join(definition.exclude_lists),
        "excludeSegments": ",".join(definition.exclude_segments),
        "replyTo": definition.reply_to,
        "variables": variables_text(definition.variables),
        "scheduledAt": local_time(definition.scheduled_at, zone),
        "when": "now" if definition.scheduled_at is None else "later",
    }
    if definition.sender is not None:
        fields["from.name"], fields["from"] = address.split_mailbox(definition.sender)
    fields["tracking"] = definition.tracking
    if (waves := definition.waves) is not None:
        percents = ", ".join(map(str, waves.percents))
        fields |= {"waves": "yes", "waves.percents": percents, "waves.waitMinutes": waves.wait_minutes}
    if definition.utm is not None:
        fields |= {f"utm.{name}": value for name, value in definition.utm.model_dump().items()}
    limits = definition.limits.model_dump(mode="json", by_alias=True)
    fields |= hours_fields(limits.pop("workingHours"))
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
    several = ("lists[", "excludeLists[", "excludeSegments[")
    return Errors({name.partition("[")[0] if name.startswith(several) else name: text for name, text in found.items()})


def error_links(errors: Errors, path: str, shown: DraftStep | None) -> list[tuple[str, str, str]]:
    """Return for each error the link to its field, the label of the field and the sentence.

    The link leads to another step if the field is not on the page of the step `shown`.
    """
    found = []
    for name, text in errors.items():
        step = step_of(name)
        to = f"#{name}" if step is shown else f"{path}/edit/{step}#{name}"
        found.append((to, "" if name == FORM else FIELD_LABELS.get(name, _readable(name)), text))
    return found


def _readable(name: str) -> str:
    """Return the label of a field that is repeated: `Variant 1 subject`."""
    number, _, last = name.partition("[")[2].partition("].")
    return (
        gettext("Variant {number} {last}", number=int(number) + 1, last=last) if number.isdecimal() else last_word(name)
    )


def last_word(name: str) -> str:
    return name.rpartition(".")[2].capitalize()


def variables_of(text: str) -> dict[str, Any]:
    """Parse lines of `name = value`. A value that is valid JSON is decoded; any other value is a text."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise InvalidInput(
                gettext("Line {number} must have the form name = value.", number=number), field="variables"
            )
        try:
            found[name.strip()] = load_json(value)
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
    content = {"subject": form["content.subject"], "preheader": form["content.preheader"]}
    if form["content.templateId"]:
        return _without_empty({**content, "templateId": form["content.templateId"]})
    body, text = (_lines(form[name]) if form[name].strip() else "" for name in ("content.body", "content.text"))
    return _without_empty({**content, "body": body, "format": form["content.format"] or "html", "text": text})


def _mailbox(form: Fields) -> str:
    name, email = form["from.name"], form["from"]
    return address.format_mailbox(name, email) if name and email else email or name


def _send_time(form: Fields, zone: tzinfo) -> str | None:
    if form["when"] == "now":
        return None
    if form["when"] == "later" and not form["scheduledAt"]:
        raise InvalidInput(gettext("Choose a date and time."), field="scheduledAt")
    return utc_text(form["scheduledAt"], zone)


def _several(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _limits(form: Fields) -> dict[str, Any]:
    numbers = {name: _number(form[f"limits.{name}"]) for name in NUMERIC_LIMITS}
    words = {name: form[f"limits.{name}"] for name in TEXT_LIMITS}
    ticked = {name: True for name in BOOLEAN_LIMITS if form[f"limits.{name}"]}
    rails = _without_empty({name: _decimal(form[f"limits.guardRails.{name}"]) for name in GUARD_RAILS})
    return _without_empty({**numbers, **words, **ticked, "guardRails": rails or None, "workingHours": hours_text(form)})


def _waves(form: Fields) -> dict[str, Any]:
    parts = [part.strip().removesuffix("%").strip() for part in form["waves.percents"].split(",") if part.strip()]
    return _without_empty(
        {"percents": [_number(part) for part in parts], "waitMinutes": _number(form["waves.waitMinutes"])}
    )


def tenant_rails_of(form: Fields) -> str | None:
    """Return the guard rails of the tenant's form as JSON, or None if all fields are empty."""
    rails = _without_empty({name: _decimal(form[f"guardRails.{name}"]) for name in GUARD_RAILS})
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
                {"name": said["name"], **_without_empty({"subject": said["subject"], "body": _lines(said["body"])})}
            )
    return {
        "variants": variants,
        **_without_empty(
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
        load_json(value)
    except ValueError:
        return value if value == value.strip() and "\n" not in value else orjson.dumps(value).decode()
    return orjson.dumps(value).decode()  # Quote a text that looks like JSON.


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
