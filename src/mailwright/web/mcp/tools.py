"""The tools of the MCP server. Each one is a route of the API, whose OpenAPI description gives its arguments."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mailwright.access.roles import Scope
from mailwright.actions import load_nouns
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.web.api.caller import KEY_NAME, scope_of

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
# Headers that a tool takes as arguments. Others belong to the connection.
_HEADERS: Final = {KEY_NAME: "idempotencyKey"}


@dataclass(frozen=True, slots=True)
class RouteTool:
    name: str
    method: str
    path: str
    description: str

    @property
    def scope(self) -> Scope:
        """The scope that a caller needs."""
        return scope_of(self.method, self.path)


def _declared_tools() -> Iterable[RouteTool]:
    for noun in load_nouns():
        for action in noun.actions:
            if action.agent is not None:
                yield RouteTool(action.agent.name, action.method, action.path, action.agent.description)


TOOLS: Final = (
    *_declared_tools(),
    RouteTool("show_contact", "GET", "/v1/contacts/{email}", "Show a contact with subscriptions and status."),
    RouteTool("contact_history", "GET", "/v1/contacts/{email}/history", "Show what happened with a contact."),
    RouteTool("list_sequences", "GET", "/v1/sequences", "List the sequences with their status, newest first."),
    RouteTool(
        "show_sequence",
        "GET",
        "/v1/sequences/{sequenceId}",
        "Show a sequence with its draft and the number of people at each step.",
    ),
    RouteTool(
        "explain_sequences",
        "GET",
        "/v1/contacts/{email}/sequences",
        "Explain why a contact got the emails of sequences or not, what comes next and when. With `sequenceId`, also "
        "which rule kept them out of that sequence.",
    ),
    RouteTool(
        "rehearse_sequence",
        "POST",
        "/v1/sequences/{sequenceId}/rehearse",
        "Run the draft of a sequence on a virtual clock: the emails of the next days by step, and the limits that hold "
        "them. Nothing is sent or changed.",
    ),
    RouteTool(
        "list_ready_sequences",
        "GET",
        "/v1/sequences/ready",
        "List complete sequences with their documents, as examples for `create_sequence_draft`.",
    ),
    RouteTool("list_templates", "GET", "/v1/templates", "List the templates."),
    RouteTool("show_template", "GET", "/v1/templates/{templateId}", "Show a template with its source."),
    RouteTool("preview_template", "POST", "/v1/templates/{templateId}/preview", "Render a template with values."),
    RouteTool("audit_log", "GET", "/v1/audit-log", "Show who changed what, latest first."),
    RouteTool(
        "create_sequence_draft",
        "POST",
        "/v1/sequences",
        "Create a draft of a sequence from a `document`. Nobody enters it until a person publishes it in the "
        "dashboard. `ready` instead of a document requires the scope `manage`.",
    ),
    RouteTool(
        "edit_sequence_draft",
        "PUT",
        "/v1/sequences/{sequenceId}",
        "Replace the document of a draft that was never published.",
    ),
    RouteTool(
        "create_template",
        "PUT",
        "/v1/templates/{templateId}",
        "Create a template. A new version of an existing template requires the scope `manage`, because email that is "
        "sent from now on would use it.",
    ),
    RouteTool(
        "send_email",
        "POST",
        "/v1/email/send",
        "Send one email now. This cannot be undone. Choose an `idempotencyKey` for each email, and repeat it when you "
        "retry: the same key never sends twice.",
    ),
)


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """The arguments of a tool: which of them belong to the path, the query and the headers, and their JSON Schema."""

    path: frozenset[str]
    query: frozenset[str]
    headers: Mapping[str, str]  # the names of headers, by argument
    schema: Schema

    def body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in self.outside_body}

    @property
    def outside_body(self) -> frozenset[str]:
        return self.path | self.query | self.headers.keys()


def describe_arguments(tool: RouteTool, openapi: Mapping[str, Any]) -> ToolArguments:
    """Read the arguments of a tool from the API description."""
    operation = openapi["paths"][tool.path][tool.method.lower()]
    described = operation.get("parameters", ())
    parameters = [each for each in described if each["in"] in ("path", "query")]
    headers = {
        _HEADERS[each["name"]]: each for each in described if each["in"] == "header" and each["name"] in _HEADERS
    }
    properties = {each["name"]: each["schema"] for each in parameters}
    properties |= {name: {**each["schema"], "description": each["description"]} for name, each in headers.items()}
    required = [each["name"] for each in parameters if each.get("required")]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is not None:
        body = _resolve(content["schema"], openapi)
        properties |= body.get("properties", {})
        required += body.get("required", [])
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    definitions = _definitions(schema, openapi)
    return ToolArguments(
        frozenset(each["name"] for each in parameters if each["in"] == "path"),
        frozenset(each["name"] for each in parameters if each["in"] == "query"),
        {name: each["name"] for name, each in headers.items()},
        _with_local_references(schema | ({"$defs": definitions} if definitions else {})),
    )


def _resolve(schema: Schema, openapi: Mapping[str, Any]) -> Schema:
    reference = schema.get("$ref")
    resolved: Schema = openapi["components"]["schemas"][reference.removeprefix(_REFERENCE)] if reference else schema
    return resolved


def _definitions(schema: Schema, openapi: Mapping[str, Any]) -> dict[str, Schema]:
    """Collect the schemas that a schema refers to, directly or indirectly."""
    found: dict[str, Schema] = {}
    waiting = list(_references(schema))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = openapi["components"]["schemas"][name]
            waiting += _references(found[name])
    return found


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        if isinstance(reference := node.get("$ref"), str):
            yield reference.removeprefix(_REFERENCE)
        for each in node.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in node:
            yield from _references(each)


def _with_local_references(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name: value.replace(_REFERENCE, "#/$defs/") if name == "$ref" else _with_local_references(value)
            for name, value in node.items()
        }
    return [_with_local_references(each) for each in node] if isinstance(node, list) else node
