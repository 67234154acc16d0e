"""The API's description: which bodies, answers and problems each route has, as OpenAPI."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mailwright.sources.api.requests import BatchRequest, SendRequest
from mailwright.web import request_ids
from mailwright.web.api import administrator, caller
from mailwright.web.errors import MEDIA_TYPE, Problem

_COMPONENTS = "#/components/schemas/"

_API_KEY = {"type": "http", "scheme": "bearer", "description": "A key, as `mailwright key create` prints it."}
_ADMINISTRATOR = {"type": "http", "scheme": "bearer", "description": "The password in `ADMIN_PASSWORD`."}
_REQUEST_ID = {
    "name": request_ids.NAME,
    "in": "header",
    "description": "Your own id of this request; one is made if you give none. The answer carries it.",
    "schema": {"type": "string", "pattern": request_ids.PATTERN},
}
_IDEMPOTENCY_KEY = {
    "name": caller.KEY_NAME,
    "in": "header",
    "description": "The same key with the same body is accepted once; every later request gets the first answer.",
    "schema": {"type": "string", "pattern": caller.KEY_PATTERN},
}

# The models that routes name without handing them to the framework; collected as the routes are written.
_models: dict[str, type[BaseModel]] = {}


def describe_body(model: type[BaseModel], *, is_idempotent: bool = False) -> dict[str, Any]:
    """The body of a route that reads it by itself."""
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": _reference(model)}}}}
    return {**body, "parameters": [_IDEMPOTENCY_KEY]} if is_idempotent else body


def describe_responses(
    success: Mapping[HTTPStatus, type[BaseModel] | None], *problems: HTTPStatus
) -> dict[int | str, Any]:
    """What a route of a caller answers. Each may also say 401, 403, 422, and 503 while the database is out of reach."""
    always = (
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    content = {MEDIA_TYPE: {"schema": _reference(Problem)}}
    described: dict[int | str, Any] = {
        problem.value: {"description": problem.phrase, "content": content} for problem in (*problems, *always)
    }
    return {**describe_success(success), **described}


def describe_files(media_types: Sequence[str], *problems: HTTPStatus) -> dict[int | str, Any]:
    """A file in one of these forms."""
    content = {media_type: {"schema": {"type": "string"}} for media_type in media_types}
    return {**describe_responses({}, *problems), HTTPStatus.OK.value: {"description": "OK", "content": content}}


def describe_success(answers: Mapping[HTTPStatus, type[BaseModel] | None]) -> dict[int | str, Any]:
    return {
        status.value: {
            "description": status.phrase,
            **({"content": {"application/json": {"schema": _reference(model)}}} if model else {}),
        }
        for status, model in answers.items()
    }


def describe(app: FastAPI, *, server: str) -> None:
    """Adds what the framework cannot know of routes that read and write their bodies by themselves."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                servers=[{"url": server}],
            )
            components = schema.setdefault("components", {})
            components["securitySchemes"] = {"apiKey": _API_KEY, administrator.SECURITY_SCHEME: _ADMINISTRATOR}
            components.setdefault("schemas", {}).update(_schemas())
            for path, operations in schema["paths"].items():
                if path.startswith("/v1/"):
                    _add_caller(operations.values())
                _add_guessing(operations.values())
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_caller(operations: Iterable[dict[str, Any]]) -> None:
    """What holds for every route that knows its caller."""
    for operation in operations:
        operation.setdefault("security", [{"apiKey": []}])
        operation.setdefault("parameters", []).append(_REQUEST_ID)


def _add_guessing(operations: Iterable[dict[str, Any]]) -> None:
    """Passwords can be guessed, and so guesses are counted; keys cannot."""
    status = HTTPStatus.TOO_MANY_REQUESTS
    for operation in operations:
        if operation.get("security") == administrator.ADMINISTRATORS_ONLY["security"]:
            content = {MEDIA_TYPE: {"schema": _reference(Problem)}}
            operation["responses"][str(status.value)] = {"description": status.phrase, "content": content}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    _models[model.__name__] = model
    return {"$ref": _COMPONENTS + model.__name__}


def _schemas() -> dict[str, Any]:
    models: list[type[BaseModel]] = [*_models.values(), SendRequest]
    _, found = models_json_schema([(model, "validation") for model in models], ref_template=_COMPONENTS + "{model}")
    schemas: dict[str, Any] = found["$defs"]
    # The items are read one by one, so that a bad one stops no other: the model itself takes them as they come.
    schemas[BatchRequest.__name__]["properties"]["messages"]["items"] = {"$ref": _COMPONENTS + SendRequest.__name__}
    return schemas
