"""The Python client: methods, models and retries, without a server."""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from client import generate

from mailwright_client import Client, Conflict, Invalid, NotReached, Retries, Unavailable, models
from mailwright_client.models import SendRequest

# A test of the generated pages compares this file with the code.
DESCRIPTION = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
SCHEMAS: dict[str, Any] = DESCRIPTION["components"]["schemas"]
MESSAGE = SendRequest(to="ada@example.com", subject="Hello", html="<p>Hello</p>")
ACCEPTED = {"outboxId": "1", "jobId": "1", "requestId": "r", "status": "PENDING"}


def described_operations() -> set[tuple[str, str]]:
    """Return method and path of every operation that a client can call."""
    return {
        (method.upper(), path)
        for path, methods in DESCRIPTION["paths"].items()
        for method, operation in methods.items()
        if "x-method" in operation
    }


def called_operations() -> Iterator[tuple[str, str]]:
    """Call every method with a placeholder for each argument and yield the request that leaves."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(418)

    client = Client("http://mail.example", "key", transport=httpx.MockTransport(answer))
    for group in vars(client).values():
        for name, method in inspect.getmembers(group, inspect.ismethod):
            if (
                name.startswith("_")
                or name.endswith("_all")
                or type(group).__module__ != "mailwright_client.operations"
            ):
                continue
            hints = get_type_hints(type(group).__dict__[name])
            given = {each: placeholder(each, hints[each]) for each in inspect.signature(method).parameters}
            with pytest.raises(Exception, match="418"):
                method(**given)
            yield seen[-1].method, re.sub(r"\{?placeholder-(\w+)\}?", r"{\1}", seen[-1].url.path)


def placeholder(name: str, kind: Any) -> Any:
    if is_dataclass(kind):
        return kind(**dict.fromkeys(field.name for field in fields(kind)))  # type: ignore[operator]
    if kind is bytes:
        return b"content"
    return f"placeholder-{name}" if kind is str and name != "content_type" else "text/plain" if kind is str else None


def test_every_operation_has_exactly_one_method() -> None:
    def without_names(path: str) -> str:
        return re.sub(r"\{\w+\}", "{}", path)

    ours = [(method, without_names(path)) for method, path in called_operations()]
    assert sorted(ours) == sorted((method, without_names(path)) for method, path in described_operations())


def test_every_model_has_the_fields_of_its_schema() -> None:
    for name, schema in SCHEMAS.items():
        if "enum" in schema:
            continue
        by_json_name = {json_name(field): field for field in fields(getattr(models, generate.class_name(name)))}
        assert set(by_json_name) == set(schema.get("properties", {})), name
        required = {key for key, field in by_json_name.items() if field.default is MISSING}
        assert required == set(schema.get("required", ())), name


def test_generated_modules_match_the_openapi_document() -> None:
    for name, text in {
        "models.py": generate.models(DESCRIPTION),
        "operations.py": generate.operations(DESCRIPTION),
    }.items():
        assert (generate.PACKAGE / name).read_text(encoding="utf-8") == text, "run `make docs`"


def json_name(field: Field[Any]) -> str:
    first, *rest = field.name.split("_")
    return str(field.metadata.get("json", first + "".join(part.capitalize() for part in rest)))


def test_unset_fields_are_not_sent() -> None:
    assert json.loads(MESSAGE.to_json()) == {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hello</p>"}
    with pytest.raises(TypeError, match="sujbect"):
        SendRequest(to="ada@example.com", sujbect="Hello")  # type: ignore[call-arg]


# Retries.


class Server:
    """Return the given responses in order and record the requests; an exception is raised instead."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **options: Any) -> Client:
        return Client(
            "http://mail.example", "key", transport=httpx.MockTransport(self), sleep=self.waits.append, **options
        )


def busy(seconds: str = "5") -> httpx.Response:
    problem = {"code": "NOT_DURABLE", "detail": "Not now.", "status": 503, "title": "", "type": ""}
    return httpx.Response(503, json=problem, headers={"Retry-After": seconds, "X-Request-Id": "req-1"})


def test_send_retries_with_the_same_key_after_retry_after() -> None:
    server = Server(busy(), httpx.ReadTimeout("cut"), httpx.Response(202, json=ACCEPTED))
    assert server.client().email.send(MESSAGE).outbox_id == "1"
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    assert (len(server.requests), len(keys)) == (3, 1)
    assert server.waits[0] == 5.0
    assert 0.5 <= server.waits[1] <= 1.0


def test_each_send_has_its_own_key_unless_given() -> None:
    server = Server(*(httpx.Response(202, json=ACCEPTED) for _ in range(3)))
    client = server.client()
    client.email.send(MESSAGE)
    client.email.send(MESSAGE)
    client.email.send(MESSAGE, idempotency_key="order-7")
    first, second, third = (request.headers["Idempotency-Key"] for request in server.requests)
    assert first != second
    assert third == "order-7"


def test_unsafe_call_without_key_is_not_retried() -> None:
    server = Server(httpx.ReadTimeout("cut"))
    with pytest.raises(NotReached):
        server.client().campaigns.start("some-campaign")
    assert len(server.requests) == 1


def test_refused_connection_is_always_retried() -> None:
    server = Server(
        httpx.ConnectError("refused"), httpx.Response(409, json={"code": "NOT_POSSIBLE_NOW", "detail": "No."})
    )
    with pytest.raises(Conflict) as refused:
        server.client().campaigns.start("some-campaign")
    assert (refused.value.code, len(server.requests)) == ("NOT_POSSIBLE_NOW", 2)


def test_too_long_retry_after_raises_the_error() -> None:
    server = Server(busy("3600"))
    with pytest.raises(Unavailable) as raised:
        server.client().email.send(MESSAGE)
    assert (raised.value.retry_after, raised.value.request_id, server.waits) == (3600.0, "req-1", [])


def test_client_gives_up_after_the_last_attempt() -> None:
    server = Server(*(busy("0") for _ in range(3)))
    with pytest.raises(Unavailable):
        server.client(retries=Retries(attempts=3)).email.send(MESSAGE)
    assert len(server.requests) == 3


def test_errors_name_fields_and_foreign_responses_are_reported() -> None:
    field = {"field": "to", "code": "INVALID_EMESSAGE", "message": "is no address"}
    server = Server(
        httpx.Response(422, json={"code": "INVALID_REQUEST", "detail": "to: is no address", "errors": [field]}),
        httpx.Response(502, text="<html>Bad Gateway</html>"),
    )
    client = server.client()
    with pytest.raises(Invalid) as invalid:
        client.email.send(MESSAGE)
    [problem] = invalid.value.errors
    assert (problem.field, problem.code) == ("to", "INVALID_EMESSAGE")
    with pytest.raises(Exception, match="HTTP_502"):
        client.email.send(MESSAGE)


def test_id_stays_one_path_segment() -> None:
    server = Server(httpx.Response(404, json={"code": "NOT_FOUND", "detail": "No."}))
    with pytest.raises(Exception, match="NOT_FOUND"):
        server.client().contacts.get("a/../b?c@example.com")
    assert server.requests[0].url.raw_path == b"/v1/contacts/a%2F..%2Fb%3Fc%40example.com"


def test_redirects_are_not_followed() -> None:
    server = Server(httpx.Response(302, headers={"Location": "https://evil.example/"}))
    with pytest.raises(Exception, match="HTTP_302"):
        server.client().email.get("x")
    assert len(server.requests) == 1


def test_unknown_response_fields_are_ignored() -> None:
    server = Server(httpx.Response(202, json={**ACCEPTED, "status": "BRAND_NEW", "more": 1}))
    assert server.client().email.send(MESSAGE).status == "BRAND_NEW"


@pytest.mark.parametrize("identifier", ["", ".", ".."])
def test_id_that_changes_the_address_is_refused(identifier: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        Server().client().contacts.erase(identifier)
