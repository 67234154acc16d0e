"""The operations of the OpenAPI document as the pages show them."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.web import request_ids
from mailwright.web.api_reference import snippets
from mailwright.web.api_reference.schemas import Field, Schemas


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    phrase: str
    media_types: Sequence[str]
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class Operation:
    verb: str
    path: str
    group: str
    summary: str  # the first sentence of the description
    description: str
    scope: str
    parameters: Mapping[str, Sequence[Field]]  # by their place: path, query, header
    media_types: Sequence[str]  # of the body
    body: Sequence[Field]
    request: snippets.Request
    python: str
    typescript: str
    answers: Sequence[Answer]
    problems: Sequence[tuple[str, str]]  # status and phrase

    @property
    def anchor(self) -> str:
        return f"{self.verb}-{self.path.strip('/')}".lower().replace("/", "-").translate(str.maketrans("", "", "{}"))

    @property
    def curl(self) -> str:
        return snippets.curl(self.request)

    @property
    def sample_body(self) -> str:
        return json.dumps(self.request.body, ensure_ascii=False, indent=2) if self.request.model else ""

    @property
    def words(self) -> str:
        """What a search looks through."""
        return " ".join([self.verb, self.path, self.summary, self.request.method, self.group]).lower()


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    operations: Sequence[Operation]

    @property
    def key(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def title(self) -> str:
        return f"{self.name[:1].upper()}{self.name[1:]}".replace("Dmarc", "DMARC")


class Reference:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.version = str(document["info"]["version"])
        self._document = document
        self._schemas = Schemas(document["components"]["schemas"])

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        """The groups by their key in addresses, in alphabetical order."""
        found = [
            self._operation(verb.upper(), path, operation)
            for path, operations in self._document["paths"].items()
            for verb, operation in operations.items()
        ]
        found.sort(key=lambda each: (each.group, each.path, each.verb))
        groups = [Group(name, list(operations)) for name, operations in groupby(found, attrgetter("group"))]
        return {group.key: group for group in groups}

    def _operation(self, verb: str, path: str, operation: Mapping[str, Any]) -> Operation:
        description = str(operation.get("description", operation.get("summary", "")))
        content = operation.get("requestBody", {}).get("content", {})
        media_type = "application/json" if "application/json" in content else next(iter(sorted(content)), "")
        schema = content.get(media_type, {}).get("schema", {})
        is_json = media_type == "application/json"
        method = str(operation.get("x-method", ""))
        parameters = self._parameters(operation)
        request = snippets.Request(
            verb=verb,
            path=path,
            values={each.name: str(each.sample) for each in parameters.get("path", ())},
            query={each.name: each.sample for each in parameters.get("query", ()) if each.is_required},
            media_type=media_type,
            model=self._schemas.name_of(schema) if is_json else "",
            body=self._schemas.sample(schema) if is_json else None,
            method=method,
        )
        answers, problems = self._responses(operation)
        return Operation(
            verb=verb,
            path=path,
            group=str(operation.get("tags", ["other"])[0]) if method else "provider events",
            summary=re.split(r"(?<=\.)\s", description, maxsplit=1)[0],
            description=description,
            scope=str(operation.get("x-scope", "")),
            parameters=parameters,
            media_types=sorted(content),
            body=list(self._schemas.fields(schema)) if is_json else (),
            request=request,
            python=snippets.python(request, self._schemas) if method else "",
            typescript=snippets.typescript(request) if method else "",
            answers=answers,
            problems=problems,
        )

    def _parameters(self, operation: Mapping[str, Any]) -> Mapping[str, Sequence[Field]]:
        found: dict[str, list[Field]] = {}
        for each in operation.get("parameters", ()):
            name, schema = each["name"], each["schema"]
            if name == request_ids.NAME:  # The index explains it once.
                continue
            sample = self._schemas.sample(schema, name)
            text = str(each.get("description", ""))
            parameter = Field(name, self._schemas.type(schema), each.get("required", False), text, sample=sample)
            found.setdefault(each["in"], []).append(parameter)
        return found

    def _responses(self, operation: Mapping[str, Any]) -> tuple[Sequence[Answer], Sequence[tuple[str, str]]]:
        answers, problems = [], []
        for status, response in sorted(operation["responses"].items()):
            if not status.startswith("2"):
                problems.append((status, str(response["description"])))
                continue
            content = response.get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            answers.append(Answer(status, str(response["description"]), [*content], list(self._schemas.fields(schema))))
        return answers, problems
