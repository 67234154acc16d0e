"""Read YAML with the line of every value, and write it so that people and `git diff` can read it.

The rules are those of YAML 1.2: `off` and `no` are text, and so are dates and times. A repeated key is an error.
"""

import re
from typing import Any, Final

import yaml

from mailwright.domain.errors import InvalidInput

Place = tuple[str, ...]
_MAX_DEPTH: Final = 64
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_BOOLEANS: Final = {"true": True, "True": True, "false": False, "False": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)


class YamlFile:
    """The content of a file. `line_of` says where a value is."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {}
        try:
            node = yaml.compose(text, yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise InvalidInput(f"is not YAML: {' '.join(str(error).split())}", field="FILE") from error
        self.content = {} if node is None else self._read(node, ())
        if not isinstance(self.content, dict):
            raise InvalidInput("must have sections, for example `lists:`", field="FILE")

    def line_of(self, place: Place) -> int:
        """Return the line of a value, or of the nearest object around it."""
        while place not in self._lines:
            place = place[:-1]
        return self._lines[place]

    def _read(self, node: yaml.Node, place: Place) -> Any:
        self._lines.setdefault(place, node.start_mark.line + 1)
        if len(place) > _MAX_DEPTH:
            raise InvalidInput(f"line {node.start_mark.line + 1}: is nested too deeply", field="FILE")
        match node:
            case yaml.MappingNode():
                return self._mapping(node, place)
            case yaml.SequenceNode():
                return [self._read(each, (*place, str(number))) for number, each in enumerate(node.value)]
        return node.value if getattr(node, "style", None) else _plain(node.value)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.value in found:
                raise InvalidInput(f"line {line}: {getattr(key, 'value', '')} is written twice", field="FILE")
            self._lines[*place, key.value] = line
            found[key.value] = self._read(value, (*place, key.value))
        return found


def _plain(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and no references to earlier values."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(content: Any) -> str:
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
