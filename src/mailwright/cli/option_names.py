"""Map API fields to command options, so that errors of a command name its options."""

import re
from collections.abc import Sequence
from typing import Any, Final

# API fields whose command parameter has a different name.
_OTHER_NAMES: Final = {
    "article_key": "key",
    "audience_filter": "filters",
    "campaign_tag": "tag",
    "from": "sender",
    "scheduled_at": "schedule",
    "send_batch_id": "batch",
    "variables": "values",
    "map": "columns",
    "list_key": "lists",
    "template_id": "template",
    "in_readers_time_zone": "readers_time",
}
# Options whose value is a JSON object: an error names the field of the object, too.
_JSON_OPTIONS: Final = frozenset({"guard_rails"})
_INDEX: Final = re.compile(r"\[\d+\]")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def option_name(field: str, command: Any, arguments: Sequence[str]) -> str:
    """Return the command's option for an API field: `--daily-limit` for `limits.dailyLimit`.

    `command` is the top-level command that ran. If the command has no option for the field, return the field's name.
    """
    options = _options(_leaf(command, arguments))
    parts = _INDEX.sub("", field).split(".")
    for index, part in enumerate(parts):
        name = _CAPITAL.sub("_", part).lower()
        for candidate in (name, f"{name}_", _OTHER_NAMES.get(name, name)):
            if candidate in options:
                inner = parts[index + 1 :] if candidate in _JSON_OPTIONS else []
                return " ".join([options[candidate], *inner])
    return field


def _leaf(command: Any, arguments: Sequence[str]) -> Any:
    """Return the subcommand that the arguments select."""
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    return command


def _options(command: Any) -> dict[str, str]:
    """Return the longest spelling of each option, both under its parameter's name and under the option's name."""
    found: dict[str, str] = {}
    for parameter in getattr(command, "params", ()):
        if spellings := [each for each in parameter.opts if each.startswith("--")]:
            longest = max(spellings, key=len)
            found[parameter.name] = longest
            found.setdefault(longest.removeprefix("--").replace("-", "_"), longest)
    return found
