"""Writes the typed client out of the API's description: its models, and a method for every operation.

Written like code that people read, because they do: in an editor, while they call it. What cannot be made from a
description (connections, retries, errors) is written by hand beside it.
"""

import builtins
import keyword
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic.alias_generators import to_camel

# What providers post to us is not called by anybody else.
NOT_CALLED = ("/ses-events", "/sendgrid-events")

# The group of methods that a path belongs to, the first that fits; other paths are called by what follows `/v1/`.
GROUPS = {
    "/v1/contacts/imports": "imports",
    "/v1/": "",
    "/mail/progress": "progress",
    "/send-mailout": "mailouts",
    "/": "health",
}

# The words that callers look for, where a route's own function is called otherwise.
WORDS = {
    "show": "get",
    "why": "explain",
    "try_out": "test",
    "search": "list",
    "healthz": "alive",
    "readyz": "ready",
    "prometheus": "metrics",
}

WIDTH = 110

MODELS_HEAD = '''"""The API's requests and answers. Made by tools/client.py; `make docs` makes it anew."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import Field

from mailwright.client.model import Answer, Request

'''

OPERATIONS_HEAD = '''"""A method for every operation. Made by tools/client.py; `make docs` makes it anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from mailwright.client import models
from mailwright.client.call import Call, Send, SendAsync, as_bytes, as_is, nothing, path

'''


def models(description: Mapping[str, Any]) -> str:
    schemas: Mapping[str, Any] = description["components"]["schemas"]
    asked = _asked(description)
    words = [_alias(name, schema) for name, schema in sorted(schemas.items()) if "enum" in schema]
    parts = ["\n".join(["# Later versions may know more words than these.", *words])]
    parts += [
        _model(name, schema, is_request=name in asked)
        for name, schema in sorted(schemas.items())
        if "enum" not in schema
    ]
    return _formatted(MODELS_HEAD + "\n\n".join(parts) + "\n")


def operations(description: Mapping[str, Any]) -> str:
    groups = grouped(description)
    schemas = description["components"]["schemas"]
    parts = [
        _class(name, found, schemas, is_async=is_async) for is_async in (False, True) for name, found in groups.items()
    ]
    parts += [_bundle("Operations", "Send", groups, ""), _bundle("AsyncOperations", "SendAsync", groups, "Async")]
    return _formatted(OPERATIONS_HEAD + "\n\n".join(parts) + "\n")


# Models.


def _asked(description: Mapping[str, Any]) -> set[str]:
    """The models that callers fill in, with all that these are made of."""
    schemas = description["components"]["schemas"]
    waiting = [
        name
        for operations in description["paths"].values()
        for operation in operations.values()
        for name in _references(operation.get("requestBody", {}))
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for each in schema.values():
            yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _alias(name: str, schema: Mapping[str, Any]) -> str:
    values = ", ".join(repr(each) for each in schema["enum"])
    return f"{name}: TypeAlias = Literal[{values}] | str"


def _model(name: str, schema: Mapping[str, Any], *, is_request: bool) -> str:
    required = schema.get("required", ())
    fields = [_field(each, of, is_required=each in required) for each, of in schema.get("properties", {}).items()]
    # What must be given stands first, as a reader looks for it.
    lines = [line for is_first in (True, False) for line, is_needed in fields if is_needed is is_first]
    text = _docstring(schema.get("description"), 4)
    body = "\n".join(f"    {line}" for line in lines) or ("" if text else "    pass")
    return f"class {class_name(name)}({'Request' if is_request else 'Answer'}):\n{text}{body}\n"


def _field(name: str, schema: Mapping[str, Any], *, is_required: bool) -> tuple[str, bool]:
    own = snake(name)
    options = []
    if to_camel(own) != name:
        options.append(f"alias={name!r}")
    kind = type_of(schema, "")
    if is_required:
        return f"{own}: {kind} = Field({', '.join(options)})" if options else f"{own}: {kind}", True
    # What is not given is not sent: the server knows its own defaults.
    kind = kind if kind in ("Any", "None") or kind.endswith("| None") else f"{kind} | None"
    default = f"Field({', '.join(['default=None', *options])})" if options else "None"
    return f"{own}: {kind} = {default}", False


def type_of(schema: Mapping[str, Any], prefix: str = "models.", array: str = "list") -> str:  # noqa: PLR0911
    if "$ref" in schema:
        return prefix + class_name(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        kinds = dict.fromkeys(type_of(each, prefix, array) for each in schema["anyOf"])
        return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return f"Literal[{', '.join(repr(each) for each in schema['enum'])}] | str"
    match schema.get("type"):
        case "string":
            return "datetime" if schema.get("format") == "date-time" else "str"
        case "array":
            return f"{array}[{type_of(schema.get('items', {}), prefix, array)}]"
        case "object":
            values = schema.get("additionalProperties", True)
            inner = type_of(values, prefix, array) if isinstance(values, Mapping) else "Any"
            return f"dict[str, {inner}]" if array == "list" else f"Mapping[str, {inner}]"
        case kind:
            return {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(str(kind), "Any")


# Operations.


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    spec: Mapping[str, Any]

    @property
    def group(self) -> str:
        start, found = next(each for each in GROUPS.items() if self.path.startswith(each[0]))
        return found or self.path.removeprefix(start).partition("/")[0].replace("-", "_")

    @property
    def name(self) -> str:
        """The function's own, out of the id that the framework made of it."""
        end = re.sub(r"\W", "_", self.path) + f"_{self.method.lower()}"
        own = str(self.spec["operationId"]).removesuffix(end)
        own = "list" if own == f"list_{self.group}" else own
        return WORDS.get(own, own)

    def parameters(self, place: str) -> list[Mapping[str, Any]]:
        return [each for each in self.spec.get("parameters", ()) if each["in"] == place]

    @property
    def takes_key(self) -> bool:
        return any(each["name"] == "Idempotency-Key" for each in self.parameters("header"))

    @property
    def body(self) -> tuple[str, str] | None:
        """The media type and the Python type of what is sent."""
        content = self.spec.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            return "application/json", type_of(content["application/json"]["schema"])
        return (next(iter(sorted(content))), "bytes") if content else None

    @cached_property
    def answer(self) -> tuple[str, str]:
        """The Python type of what comes back, and what reads it."""
        statuses = sorted(status for status in self.spec["responses"] if status.startswith("2"))
        content = {
            media: each["schema"]
            for status in statuses
            for media, each in self.spec["responses"][status].get("content", {}).items()
        }
        others = [media for media in content if media != "application/json"]
        if others:
            return "bytes", "as_bytes"
        if "application/json" not in content:
            return "None", "nothing"
        kind = type_of(content["application/json"])
        return (kind, f"{kind}.read") if kind.startswith("models.") else ("Any", "as_is")


def grouped(description: Mapping[str, Any]) -> dict[str, list[Operation]]:
    groups: dict[str, list[Operation]] = defaultdict(list)
    for path, methods in sorted(description["paths"].items()):
        for method, spec in sorted(methods.items()):
            if path not in NOT_CALLED:
                made = Operation(method.upper(), path, spec)
                groups[made.group].append(made)
    for name, found in groups.items():
        names = [each.name for each in found]
        if repeated := {each for each in names if names.count(each) > 1}:
            sys.exit(f"tools/client.py: two operations of {name} are called {', '.join(sorted(repeated))}")
    return dict(sorted(groups.items()))


def _class(name: str, found: list[Operation], schemas: Mapping[str, Any], *, is_async: bool) -> str:
    title = _title(name)
    methods = [_method(each, is_async=is_async) for each in found]
    methods += [text for each in found if (text := _walk(each, found, schemas, is_async=is_async))]
    send = "SendAsync" if is_async else "Send"
    return (
        f"class {'Async' if is_async else ''}{title}:\n"
        f"    def __init__(self, send: {send}) -> None:\n        self._send = send\n\n" + "\n".join(methods)
    )


def _method(each: Operation, *, is_async: bool) -> str:
    kind, reader = each.answer
    begin, wait = ("async def", "await ") if is_async else ("def", "")
    return (
        f"    {begin} {each.name}({', '.join(['self', *_arguments(each)])}) -> {kind}:\n"
        f"{_docstring(each.spec.get('description'), 8)}"
        f"        {'' if kind == 'None' else 'return '}{wait}self._send(Call({', '.join(_call(each, reader))}))\n"
    )


def _arguments(each: Operation) -> list[str]:
    given = [f"{argument(parameter['name'])}: str" for parameter in each.parameters("path")]
    if each.body is not None:
        media, kind = each.body
        given.append(f"request: {kind}" if media == "application/json" else "content: bytes")
    named = []
    if each.body is not None and each.body[0] != "application/json":
        named.append(f"content_type: str = {each.body[0]!r}")
    for parameter in each.parameters("query"):
        kind = type_of(parameter["schema"], array="Sequence")
        if parameter.get("required"):
            named.append(f"{argument(parameter['name'])}: {kind}")
        else:
            optional = kind if kind.endswith("| None") else f"{kind} | None"
            named.append(f"{argument(parameter['name'])}: {optional} = None")
    if each.takes_key:
        named.append("idempotency_key: str | None = None")
    return [*given, *(["*", *named] if named else [])]


def _call(each: Operation, reader: str) -> list[str]:
    address = [argument(parameter["name"]) for parameter in each.parameters("path")]
    where = f"path({', '.join([repr(re.sub(r'{[^}]+}', '{}', each.path)), *address])})" if address else repr(each.path)
    parts = [repr(each.method), where, reader]
    query = [f"{parameter['name']!r}: {argument(parameter['name'])}" for parameter in each.parameters("query")]
    if query:
        parts.append(f"query={{{', '.join(query)}}}")
    if each.body is not None:
        is_json = each.body[0] == "application/json"
        parts.append("body=request.as_json()" if is_json else "body=content, content_type=content_type")
    if each.takes_key:
        parts.append("takes_key=True, idempotency_key=idempotency_key")
    return parts


def _walk(each: Operation, found: list[Operation], schemas: Mapping[str, Any], *, is_async: bool) -> str | None:
    """All of a list, page by page, where its pages have cursors."""
    queries = [parameter["name"] for parameter in each.parameters("query")]
    item, name = _item(each, schemas), f"{each.name}_all"
    if "cursor" not in queries or item is None or any(other.name == name for other in found):
        return None
    arguments = [given for given in _arguments(each) if not given.startswith("cursor:")]
    passed = [argument(parameter["name"]) for parameter in each.parameters("path")]
    passed += [f"{own}={own}" for own in map(argument, queries)]
    field = snake(next(key for key, of in _answered(each, schemas).items() if of.get("type") == "array"))
    begin, wait, iterator = ("async def", "await ", "AsyncIterator") if is_async else ("def", "", "Iterator")
    give = f"for item in page.{field}:\n                yield item" if is_async else f"yield from page.{field}"
    return (
        f"    {begin} {name}({', '.join(['self', *arguments])}) -> {iterator}[{item}]:\n"
        f'        """All of them, page by page; `limit` is the size of a page."""\n'
        f"        cursor: str | None = None\n"
        f"        while True:\n"
        f"            page = {wait}self.{each.name}({', '.join(passed)})\n"
        f"            {give}\n"
        f"            cursor = page.next_cursor\n"
        f"            if cursor is None:\n                return\n"
    )


def _item(each: Operation, schemas: Mapping[str, Any]) -> str | None:
    arrays = [of for of in _answered(each, schemas).values() if of.get("type") == "array"]
    return type_of(arrays[0]["items"]) if len(arrays) == 1 and each.method == "GET" else None


def _answered(each: Operation, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the model that an operation answers with."""
    named = {class_name(name): schema for name, schema in schemas.items()}
    found: Mapping[str, Any] = named.get(each.answer[0].removeprefix("models."), {}).get("properties", {})
    return found


def _bundle(name: str, send: str, groups: Mapping[str, Any], prefix: str) -> str:
    lines = "\n".join(f"        self.{each} = {prefix}{_title(each)}(send)" for each in groups)
    return f"class {name}:\n    def __init__(self, send: {send}) -> None:\n{lines}\n"


# Words.


def class_name(name: str) -> str:
    """Two modules may have a model of one name: then the description names the modules, too."""
    *_, module, own = ["", *name.split("__")]
    return f"{_title(module)}{own}" if module else own


def snake(name: str) -> str:
    found = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
    return f"{found}_" if keyword.iskeyword(found) else found


def argument(name: str) -> str:
    found = snake(name)
    return f"{found}_" if hasattr(builtins, found) else found


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _docstring(text: str | None, indent: int) -> str:
    if not text:
        return ""
    space = " " * indent
    paragraphs = [textwrap.fill(" ".join(each.split()), WIDTH - indent) for each in text.split("\n\n")]
    whole = "\n\n".join(paragraphs).replace('"""', "'''").replace("\\", "\\\\")
    ending = f"\n{space}" if "\n" in whole else ""
    return textwrap.indent(f'"""{whole}', space) + f'{ending}"""\n' + ("\n" if indent == 4 else "")


def _formatted(text: str) -> str:
    """As the rest of the tree, by the same tool and the same settings."""
    for arguments in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", "src/mailwright/client/made.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text
