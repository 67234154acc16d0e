"""Write the same request for curl, Python and TypeScript."""

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from shlex import quote
from textwrap import indent
from typing import Any, Final
from urllib.parse import quote as percent_encode
from urllib.parse import urlencode

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.web.api_reference.schemas import Schemas

_WIDTH: Final = 88


@dataclass(frozen=True, slots=True)
class Request:
    """One request with sample values."""

    verb: str
    path: str  # with placeholders
    values: Mapping[str, str]  # of the placeholders
    query: Mapping[str, Any]  # the required parameters
    media_type: str  # of the body; empty: no body
    model: str  # the name of the body's schema; empty: a body that is not JSON
    body: Any
    method: str  # `email.send`; empty: no client calls this route

    @property
    def url(self) -> str:
        path = re.sub(r"\{(\w+)\}", lambda found: percent_encode(self.values[found[1]], safe=""), self.path)
        query = urlencode(self.query)
        return f"{path}?{query}" if query else path

    @property
    def file(self) -> str:
        """The name of the file that is sent as the body, for example `file.csv`."""
        return f"file.{self.media_type.partition('/')[2].replace('octet-stream', 'zip')}"


def curl(request: Request) -> str:
    parts = [f'curl {"" if request.verb == "GET" else f"-X {request.verb} "}"$MAILWRIGHT_URL{request.url}"']
    if request.method:
        parts.append('-H "Authorization: Bearer $MAILWRIGHT_API_KEY"')
    if request.media_type:
        parts.append(f"-H 'Content-Type: {request.media_type}'")
        is_json = request.media_type == "application/json"
        parts.append(f"-d {quote(_json(request.body))}" if is_json else f"--data-binary @{request.file}")
    return " \\\n  ".join(parts)


def python(request: Request, schemas: Schemas) -> str:
    arguments = [_quoted(value) for value in request.values.values()]
    if request.model:
        arguments.append(_model(request.model, request.body, schemas))
    elif request.media_type:
        arguments.append(f'Path("{request.file}").read_bytes()')
    arguments += [f"{_snake(name)}={_python(value, {}, schemas)}" for name, value in request.query.items()]
    imports = ["from mailwright_client import Client" + (", models" if request.model else "")]
    if request.media_type and not request.model:
        imports = ["from pathlib import Path\n", *imports]
    call = indent(f"result = {_call(f'client.{request.method}', arguments)}\nprint(result)", "    ")
    return "\n".join([*imports, "", "with Client(url, key) as client:", call])


def typescript(request: Request) -> str:
    group, _, name = request.method.partition(".")
    arguments = [json.dumps(value) for value in request.values.values()]
    if request.model:
        arguments.append(_literal(request.body))
    elif request.media_type:
        arguments.append("content")
    if request.query:
        arguments.append(_literal(request.query))
    call = f"const result = await client.{_camel(group)}.{_camel(name)}({', '.join(arguments)});"
    head = ['import { Client } from "mailwright-client";', "", "const client = new Client(url, key);"]
    return "\n".join([*head, call, "console.log(result);"])


def _quoted(value: Any) -> str:
    """Write a text as Python code with double quotes."""
    return json.dumps(value, ensure_ascii=False)


def _model(name: str, body: Any, schemas: Schemas) -> str:
    properties = schemas.named[name].get("properties", {})
    if not isinstance(body, Mapping) or not properties:
        return _python(body, {}, schemas)
    fields = [f"{_snake(field)}={_python(value, properties.get(field, {}), schemas)}" for field, value in body.items()]
    return _call(f"models.{name}", fields)


def _python(value: Any, schema: Mapping[str, Any], schemas: Schemas) -> str:
    found = schemas.resolve(schema) if schema else {}
    name = schemas.name_of(schema) if schema else ""
    if isinstance(value, Mapping):
        if name and found.get("properties"):
            return _model(name, value, schemas)
        return "{" + ", ".join(f"{json.dumps(key)}: {_python(of, {}, schemas)}" for key, of in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_python(each, found.get("items", {}), schemas) for each in value) + "]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _call(function: str, arguments: Sequence[str]) -> str:
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return f"{function}(\n" + indent(",\n".join(arguments), "    ") + ",\n)"


def _json(value: Any) -> str:
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _WIDTH else json.dumps(value, ensure_ascii=False, indent=2)


def _literal(value: Any) -> str:
    """Write a value as TypeScript code."""
    if isinstance(value, list) and value:
        begin, space, end, parts = "[", "", "]", [_literal(each) for each in value]
    elif isinstance(value, Mapping) and value:
        begin, space, end = "{", " ", "}"
        parts = [f"{_property(name)}: {_literal(each)}" for name, each in value.items()]
    else:
        return json.dumps(value, ensure_ascii=False)
    line = f"{begin}{space}{', '.join(parts)}{space}{end}"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return f"{begin}\n" + indent(",\n".join(parts), "  ") + f",\n{end}"


def _property(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def _snake(name: str) -> str:
    found = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
    return f"{found}_" if keyword.iskeyword(found) else found


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)
