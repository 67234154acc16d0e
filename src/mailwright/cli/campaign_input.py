"""Turn campaign options into the definition of the HTTP API."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import orjson
import typer
from pydantic import BaseModel

from mailwright.cli.exit_codes import USAGE
from mailwright.domain.errors import InvalidInput
from mailwright.sources.api.validation import RequestInvalid, parse_strict

PerSecond = Annotated[str | None, typer.Option(metavar="N|none", help="Messages per second.", show_default=False)]
PerHour = Annotated[str | None, typer.Option(metavar="N|none", help="Messages per clock hour.", show_default=False)]
PerDay = Annotated[str | None, typer.Option(metavar="N|none", help="Messages per day.", show_default=False)]
Hours = Annotated[
    str | None,
    typer.Option(metavar="HH:MM-HH:MM|none", help="Working hours, for example 09:00-18:00.", show_default=False),
]
Zone = Annotated[
    str | None, typer.Option(metavar="ZONE|none", help="Time zone, for example Europe/Lisbon.", show_default=False)
]
Warmup = Annotated[bool | None, typer.Option("--warmup/--no-warmup", help="Increase the daily volume step by step.")]
ReadersTime = Annotated[
    bool | None, typer.Option("--readers-time/--senders-time", help="Whose time zone the working hours use.")
]
Interval = Annotated[
    str | None,
    typer.Option(metavar="MS|none", help="Minimum milliseconds between the starts of two sends.", show_default=False),
]
Alone = Annotated[bool | None, typer.Option("--one-at-a-time/--side-by-side", help="Send one message at a time.")]

Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], definition: dict[str, Any]) -> Model:
    """Validate the definition and print all errors with their fields."""
    try:
        return parse_strict(model, definition)
    except RequestInvalid as error:
        for each in error.errors:
            sys.stderr.write(f"{each.field}: {each.message}\n")
        raise typer.Exit(USAGE) from error


def limits(**given: str | bool | None) -> dict[str, Any]:
    """Return the given limits under their API names; `none` removes a limit."""
    named = {name: value for name, value in given.items() if value is not None}
    return {_camel(name): _limit(value) for name, value in named.items()}


def variables(given: list[str]) -> dict[str, Any]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidInput(f"{text!r} must look like `season=spring`", field="--var")
        found[name] = json_or_text(value)
    return found


def variants(given: list[str]) -> list[dict[str, str]]:
    """Parse variants: `A` is the campaign unchanged, `B=Other subject` changes the subject."""
    pairs = (text.partition("=") for text in given)
    return [{"name": name, **({"subject": subject} if sign else {})} for name, sign, subject in pairs]


def send_time(text: str) -> str:
    """Parse a send time; without a zone it is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput("must look like 2027-01-15T08:00 or 2027-01-15T08:00+01:00", field="--schedule") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def json_or_text(text: str) -> Any:
    """Read `3`, `true` and `["a"]` as JSON, anything else as text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def json_object(text: str, field: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field=field) from error
    if not isinstance(found, dict):
        raise InvalidInput("must be an object like `definition` in `campaign show --json`", field=field)
    return found


def _limit(value: str | bool) -> Any:
    if isinstance(value, bool):
        return value
    if value == "none":
        return None
    return int(value) if value.isdecimal() else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
