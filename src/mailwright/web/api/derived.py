"""HTTP routes of the actions, with their OpenAPI description."""

import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.api_keys import Caller
from mailwright.actions import load_nouns
from mailwright.actions.declaration import (
    READ,
    DeclaredAction,
    FileBody,
    Noun,
    ResultFile,
    Upload,
    camel_case,
    one_part,
)
from mailwright.actions.inputs import read_input
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import (
    BODY_PROBLEMS,
    describe_body,
    describe_file_body,
    describe_files,
    describe_responses,
)
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json, stream_body
from mailwright.web.context import context_of
from mailwright.web.uploads import name_of_body, read_upload

# Fields that name another object, which may not exist.
_NAMES_OF_OTHERS: Final = frozenset({"tenant", "list_key", "segment_key"})


def make_router(noun: Noun) -> APIRouter:
    router = Routes(tags=[noun.tag or noun.path.removeprefix("/v1/").replace("-", " ")])
    for action in sorted(noun.actions, key=_takes_slashes):
        statuses = [action.status] if action.other_status is None else [action.status, action.other_status.status]
        router.declare(
            action.method,
            action.path,
            action.scope,
            role=action.role,
            takes_password=noun.takes_password and action.is_platform,
            status_code=action.status,
            deprecated=action.deprecated or None,
            openapi_extra=_body(action),
            responses=describe_files(action.media_types, *_problems(action))
            if action.media_types
            else describe_responses(dict.fromkeys(statuses, action.result), *_problems(action)),
        )(_endpoint(action))
    return router


def _takes_slashes(action: DeclaredAction) -> tuple[bool, bool]:
    """Sort routes: an address in a path takes all slashes, so that its routes come last."""
    return ":path}" in action.path, action.path.endswith(":path}")


def _endpoint(action: DeclaredAction) -> Callable[..., Coroutine[Any, Any, Response]]:
    """Return the function of a route. FastAPI reads the names of its parameters from its signature."""
    placeholders = {name: camel_case(name) for name in action.parameters}
    query = action.query if action.has_body else action.query or action.input

    async def endpoint(request: Request, caller: Caller, **given: Any) -> Response:
        values = [given[placeholders[name]] for name in action.parameters]
        path = dict(zip(action.parameters, values, strict=True))
        context = replace(context_of(request, caller, "api"), path=path)
        if action.noun.guard is not None and action.scope is not READ:
            await action.noun.guard(context)
        if action.file_body is not None:
            values.append(await _upload(request, action.file_body))
        if action.has_body:
            values += await read_input(action, context, await read_json(request))
        if query is not None:
            values.append(given["query"])
        result = await action.run(context, *values)
        if isinstance(result, ResultFile):
            return file_response(result)
        return (
            Response(status_code=action.status) if result is None else json_response(result, action.status_of(result))
        )

    types: dict[str, Any] = {
        "request": Request,
        "caller": CallerDep,
        **{placeholders[name]: kind for name, kind in action.parameters.items()},
    }
    if query is not None:
        types["query"] = Annotated[query, Query()]
    endpoint.__name__, endpoint.__doc__ = action.name, action.description
    endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in types.items()]
    )
    return endpoint


def _body(action: DeclaredAction) -> dict[str, Any]:
    """Describe the body of a request."""
    if (file := action.file_body) is not None:
        return describe_file_body(*file.media_types, is_form=file.max_bytes is not None)
    return describe_body(action.input) if action.input is not None and action.has_body else {}


async def _upload(request: Request, body: FileBody) -> Upload:
    if body.max_bytes is None:
        return Upload(name_of_body(request), stream_body(request))
    file = await read_upload(request, body.max_bytes)
    return Upload(file.name, one_part(file.content))


def file_response(file: ResultFile) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{file.name}"'} if file.name else None
    return StreamingResponse(file.parts, media_type=f"{file.media_type}; charset=utf-8", headers=headers)


def _problems(action: DeclaredAction) -> Iterator[HTTPStatus]:
    if action.parameters or not _NAMES_OF_OTHERS.isdisjoint(action.fields):
        yield HTTPStatus.NOT_FOUND
    if action.conflicts:
        yield HTTPStatus.CONFLICT
    if action.has_body:
        yield from BODY_PROBLEMS
    if action.file_body is not None:
        yield HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def _takes_all(noun: Noun) -> bool:
    """Whether a route takes all that follows the path of the noun, also the routes of other nouns below it."""
    return any(each.path.count("{") == 1 and each.path.endswith(":path}") for each in noun.actions)


ROUTERS: Final = [make_router(noun) for noun in sorted(load_nouns(), key=_takes_all)]
