"""The index finds the same route as trying all routes in order."""

import re
from collections.abc import Sequence

import httpx
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Scope

from mailwright.web.app import ROUTERS
from mailwright.web.methods import METHODS, undeclared_methods
from mailwright.web.plain_route import PlainRoute
from mailwright.web.route_index import RouteIndex

ALL_ROUTES = [
    route
    for router, refusals in zip(ROUTERS, undeclared_methods(ROUTERS), strict=True)
    for route in [*refusals, *router.routes]
]
WORDS = ("1", "a b", "send", "preview", "é")


def paths_with(words: Sequence[str]) -> list[str]:
    templates = {getattr(route, "path", "/") for route in ALL_ROUTES}
    filled = {re.sub(r"\{[^}]+\}", word, path) for path in templates for word in words}
    odd = {"", "/", "//", "/v1", "/v1/", "//v1/email", "/unknown", "/v1/unknown/send"}
    return sorted({path + end for path in filled for end in ("", "/", "/more")} | odd)


def first_match(routes: Sequence[BaseRoute], method: str, path: str) -> BaseRoute | None:
    scope: Scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    return next((route for route in routes if route.matches(dict(scope))[0] is Match.FULL), None)


def test_index_finds_the_first_matching_route() -> None:
    index = RouteIndex(APIRouter(routes=ALL_ROUTES))
    for path in paths_with(WORDS):
        of_path = [route for route in ALL_ROUTES if route.path_regex.match(path)]
        found = {method: first_match(index.candidates(path).routes, method, path) for method in METHODS}
        assert found == {method: first_match(of_path, method, path) for method in METHODS}, path
    assert index.candidates("/v1/email/send").routes


async def test_plain_routes_are_called_directly_unless_an_earlier_one_matches() -> None:
    plain = APIRouter(route_class=PlainRoute)

    async def respond(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.scope['route'].path} {request.url.path}")

    async def respond_with_query(request: Request, name: str) -> PlainTextResponse:
        return PlainTextResponse(f"{name} {request.url.path}")

    plain.add_api_route("/mail/send", respond, methods=["POST"])
    plain.add_api_route("/mail/{name}", respond, methods=["POST"])
    plain.add_api_route("/mail/late", respond, methods=["POST"])
    plain.add_api_route("/mail/query", respond_with_query, methods=["GET"])
    app = FastAPI()
    app.router.routes.extend(plain.routes)
    app.router.middleware_stack = RouteIndex(app.router)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test.example") as client:
        answers = [(await client.post(f"/mail/{word}")).text for word in ("send", "other", "late")]
        assert answers == ["/mail/send /mail/send", "/mail/{name} /mail/other", "/mail/{name} /mail/late"]
        assert (await client.get("/mail/query", params={"name": "ada"})).text == "ada /mail/query"
        assert (await client.get("/mail/send")).status_code == 405
        assert (await client.post("/mail/send/")).status_code == 307
    prefixed = httpx.ASGITransport(app, root_path="/mail")
    async with httpx.AsyncClient(transport=prefixed, base_url="http://test.example") as client:
        assert (await client.post("/mail/send")).status_code == 404


async def test_parameters_of_any_length_and_mounts_are_found() -> None:
    app = FastAPI()
    app.router.routes.append(Mount("/static", app=_answer("mount"), name="static"))

    @app.get("/files/{name:path}")
    async def read_file(name: str) -> str:
        return name

    @app.get("/{rest:path}")
    async def read_rest(rest: str) -> str:
        return rest

    app.router.middleware_stack = RouteIndex(app.router)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test.example") as client:
        answers = [(await client.get(path)).json() for path in ("/files/a/b/c", "/a/b/c", "/", "/static/x/y")]
    assert answers == ["a/b/c", "a/b/c", "", "mount"]


def _answer(text: str) -> FastAPI:
    mounted = FastAPI()

    @mounted.get("/{rest:path}")
    async def read() -> str:
        return text

    return mounted
