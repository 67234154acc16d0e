"""The OpenAPI description: bodies, responses and problems of each route."""

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

# Problems of every route that reads a JSON body.
BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

_API_KEY = {"type": "http", "scheme": "bearer", "description": "An API key from `mailwright key create`."}
_ADMINISTRATOR = {"type": "http", "scheme": "bearer", "description": "The password in `ADMIN_PASSWORD`."}
_REQUEST_ID = {
    "name": request_ids.NAME,
    "in": "header",
    "description": "Your own id for this request. Without it, one is generated. The response repeats it.",
    "schema": {"type": "string", "pattern": request_ids.PATTERN},
}
_IDEMPOTENCY_KEY = {
    "name": caller.KEY_NAME,
    "in": "header",
    "description": "The same key with the same body is accepted once; later requests get the first response.",
    "schema": {"type": "string", "pattern": caller.KEY_PATTERN},
}

# Models that routes use without the framework, collected when the routes are defined.
_models: dict[str, type[BaseModel]] = {}


def describe_body(model: type[BaseModel], *, is_idempotent: bool = False) -> dict[str, Any]:
    """Describe the JSON body of a route."""
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": _reference(model)}}}}
    return {**body, "parameters": [_IDEMPOTENCY_KEY]} if is_idempotent else body


def describe_file_body(media_type: str, *, is_idempotent: bool = False) -> dict[str, Any]:
    """Describe a body that is no JSON."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    body: dict[str, Any] = {"requestBody": {"required": True, "content": content}}
    return {**body, "parameters": [_IDEMPOTENCY_KEY]} if is_idempotent else body


def describe_responses(
    success: Mapping[HTTPStatus, type[BaseModel] | None], *problems: HTTPStatus
) -> dict[int | str, Any]:
    """Describe the responses of an authenticated route, which can also return 401, 403, 422 and 503."""
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
    """Describe a route that returns a file in one of these formats."""
    content = {media_type: {"schema": {"type": "string"}} for media_type in media_types}
    return {**describe_responses({}, *problems), HTTPStatus.OK.value: {"description": "OK", "content": content}}


def describe_success(models: Mapping[HTTPStatus, type[BaseModel] | None]) -> dict[int | str, Any]:
    return {
        status.value: {
            "description": status.phrase,
            **({"content": {"application/json": {"schema": _reference(model)}}} if model else {}),
        }
        for status, model in models.items()
    }


def describe_app(app: FastAPI, *, server: str) -> None:
    """Add bodies and responses to the description. FastAPI cannot know them, because routes handle JSON themselves."""

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
                _add_sign_in_limit(operations.values())
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_caller(operations: Iterable[dict[str, Any]]) -> None:
    """Add the headers and responses of every authenticated route."""
    for operation in operations:
        operation.setdefault("security", [{"apiKey": []}])
        operation.setdefault("parameters", []).append(_REQUEST_ID)


def _add_sign_in_limit(operations: Iterable[dict[str, Any]]) -> None:
    """Add 429 to routes that take a password, because failed sign-ins are counted."""
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
    # The model accepts any items: each is validated on its own, so that an invalid one does not stop the others.
    schemas[BatchRequest.__name__]["properties"]["messages"]["items"] = {"$ref": _COMPONENTS + SendRequest.__name__}
    return schemas
