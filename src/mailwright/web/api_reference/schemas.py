"""Read JSON schemas of the OpenAPI document: fields for people, and samples of valid values."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mailwright.domain.lazy_dataclass import dataclass

Schema = Mapping[str, Any]

# Fields of fields are listed to this depth. A filter can contain filters.
_DEPTH: Final = 3
_ID: Final = "01a3185c-5000-7821-bce9-2b6f56f5eb18"
_TIME: Final = "2027-01-15T08:00:00Z"
# Bodies whose required fields alone are not enough.
_BODIES: Final[Mapping[str, Any]] = {
    "SendRequest": {"to": "ada@example.com", "subject": "Your order", "text": "Your order has shipped."},
    "SettingsUpdateRequest": {"settings": {"MAILWRIGHT_RATE_PER_HOUR": "500"}},
    "TemplateRequest": {"subject": "Welcome, {{ name }}", "html": "<p>Hello {{ name }}</p>"},
    "CampaignRequest": {
        "name": "Spring",
        "content": {"subject": "Spring is here", "body": '<p>Hello</p><a href="{{ unsubscribe_url }}">Unsubscribe</a>'},
        "lists": ["news"],
    },
}
# Values by the name of the field, if its schema does not decide.
_BY_NAME: Final[Mapping[str, Any]] = {
    "email": "ada@example.com",
    "to": "ada@example.com",
    "url": "https://example.com/hooks/mail",
    "listKey": "news",
    "segmentKey": "vips",
    "templateId": "welcome",
    "articleKey": "weekly",
    "subject": "Hello",
    "name": "Ada",
    "timezone": "Europe/Berlin",
    "filter": {"tag": "vip"},
    "hex": "#3b5bdb",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a body, or a parameter of a request."""

    name: str
    type: str
    is_required: bool
    description: str
    depth: int = 0  # in other fields
    sample: Any = None  # of a parameter


@dataclass(frozen=True, slots=True)
class Schemas:
    """The named schemas of the document."""

    named: Mapping[str, Schema]

    def name_of(self, schema: Schema) -> str:
        """Return the name of a schema, or nothing. An optional one has the name of what it can be."""
        return str(_without_null(schema).get("$ref", "")).rpartition("/")[2]

    def resolve(self, schema: Schema) -> Schema:
        name = self.name_of(schema)
        return self.named[name] if name else _without_null(schema)

    def fields(self, schema: Schema, depth: int = 0) -> Iterator[Field]:
        """Yield the fields of an object, each followed by its own fields."""
        found = self.resolve(schema)
        required = found.get("required", ())
        for name, of in found.get("properties", {}).items():
            yield Field(name, self.type(of), name in required, self._description(of), depth)
            inner = _without_null(of)
            inner = inner.get("items", inner)
            if depth + 1 < _DEPTH and inner != schema:
                yield from self.fields(inner, depth + 1)

    def type(self, schema: Schema) -> str:
        """Return the type in words, with its values and limits."""
        plain = _without_null(schema)
        if "anyOf" in plain or "oneOf" in plain:
            return " or ".join(dict.fromkeys(map(self.type, plain.get("anyOf") or plain["oneOf"])))
        found = self.resolve(plain)
        if "enum" in found or "const" in found:
            return " | ".join(str(each) for each in found.get("enum", [found.get("const")]))
        if found.get("type") == "array":
            return f"list of {self.type(found.get('items', {}))}"
        kind = str(found.get("format", "")) or str(found.get("type", "any"))
        return " ".join([kind.replace("date-time", "time"), *_limits(found)])

    def sample(self, schema: Schema, name: str = "", seen: tuple[str, ...] = ()) -> Any:
        """Return a value that the schema accepts, with the fields that are required."""
        own = self.name_of(schema)
        if own in _BODIES:
            return _BODIES[own]
        found = self.resolve(schema)
        if options := found.get("anyOf") or found.get("oneOf"):
            return self.sample(options[0], name, seen)
        if "const" in found or "enum" in found or found.get("examples"):
            return next(iter([*found.get("examples", ()), *found.get("enum", ()), found.get("const")]))
        match found.get("type"):
            case "object":
                return self._object(found, own, seen) if found.get("properties") else _BY_NAME.get(name, {})
            case "array":
                few = found.get("minItems", 1)
                return [self.sample(found.get("items", {}), name.removesuffix("s"), seen)] * max(few, 1)
            case kind:
                return _scalar(str(kind), found, name)

    def _object(self, found: Schema, own: str, seen: tuple[str, ...]) -> dict[str, Any]:
        required = found.get("required", ())
        # Without a required field, the first one shows what a body looks like.
        names = [name for name in found["properties"] if name in required] or list(found["properties"])[:1]
        return {name: self.sample(found["properties"][name], name, (*seen, own)) for name in names if own not in seen}

    def _description(self, schema: Schema) -> str:
        return str(schema.get("description") or self.resolve(schema).get("description", "")).partition("\n\n")[0]


def _without_null(schema: Schema) -> Schema:
    """Return the schema of the values that are not null."""
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return options[0] if len(options) == 1 else {**schema, "anyOf": options} if options else schema


def _limits(found: Schema) -> Iterator[str]:
    if "maxLength" in found:
        yield f"(at most {found['maxLength']:,} characters)"
    elif "minimum" in found and "maximum" in found:
        yield f"({found['minimum']:,} to {found['maximum']:,})"
    elif "minimum" in found:
        yield f"(at least {found['minimum']:,})"


def _scalar(kind: str, found: Schema, name: str) -> Any:
    if kind in ("integer", "number"):
        return max(1, found.get("minimum", 1), found.get("exclusiveMinimum", 0) + 1)
    if kind != "string":
        return True if kind == "boolean" else None
    if name in _BY_NAME:
        return _BY_NAME[name]
    formats = {"date-time": _TIME, "email": "ada@example.com", "uri": "https://example.com/", "uuid": _ID}
    other = _ID if name.endswith(("Id", "_id")) else "example"
    return formats.get(str(found.get("format")), other)[: found.get("maxLength")]
