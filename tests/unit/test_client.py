"""The typed client: a method for every operation, a model for every body, and nothing repeated that does harm."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import httpx
import pytest
from pydantic import BaseModel
from tools import client as tool
from tools import docs

from mailwright.client import Client, Conflict, Invalid, NotReached, Retries, Unavailable, models
from mailwright.client.models import SendRequest

DESCRIPTION = json.loads(docs.openapi())
SCHEMAS: dict[str, Any] = DESCRIPTION["components"]["schemas"]
MODELS = sorted(name for name, schema in SCHEMAS.items() if "enum" not in schema)
MAIL = SendRequest(to="ada@example.com", subject="Hello", html="<p>Hello</p>")
ACCEPTED = {"outboxId": "1", "jobId": "1", "requestId": "r", "status": "PENDING"}


def described() -> set[tuple[str, str]]:
    """What a caller can ask for, as method and path."""
    return {
        (method.upper(), path)
        for path, methods in DESCRIPTION["paths"].items()
        for method in methods
        if path not in tool.NOT_CALLED
    }


def called() -> Iterator[tuple[str, str]]:
    """Calls every method with something for each argument, and looks at what leaves."""
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
                or type(group).__module__ != "mailwright.client.operations"
            ):
                continue
            hints = get_type_hints(type(group).__dict__[name])
            given = {each: something(each, hints[each]) for each in inspect.signature(method).parameters}
            with pytest.raises(Exception, match="418"):
                method(**given)
            yield seen[-1].method, re.sub(r"\{?placeholder-(\w+)\}?", r"{\1}", seen[-1].url.path)


def something(name: str, kind: Any) -> Any:
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return kind.model_construct()
    if kind is bytes:
        return b"content"
    return f"placeholder-{name}" if kind is str and name != "content_type" else "text/plain" if kind is str else None


def test_every_operation_of_the_api_has_a_method_and_every_method_an_operation() -> None:
    def without_names(path: str) -> str:
        return re.sub(r"\{\w+\}", "{}", path)

    ours = [(method, without_names(path)) for method, path in called()]
    assert sorted(ours) == sorted((method, without_names(path)) for method, path in described())


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_the_fields_of_its_schema(name: str) -> None:
    model: type[BaseModel] = getattr(models, tool.class_name(name))
    model.model_rebuild()
    schema = SCHEMAS[name]
    fields = {field.alias: field for field in model.model_fields.values()}
    assert set(fields) == set(schema.get("properties", {}))
    assert {alias for alias, field in fields.items() if field.is_required()} == set(schema.get("required", ()))


def test_what_is_made_from_the_description_is_up_to_date() -> None:
    behind = [file.name for file, text in docs.typed_client() if file.read_text(encoding="utf-8") != text]
    assert behind == [], "run `make docs`"


def test_what_was_not_given_is_not_sent() -> None:
    assert json.loads(MAIL.as_json()) == {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hello</p>"}
    with pytest.raises(ValueError, match="sujbect"):
        SendRequest(to="ada@example.com", sujbect="Hello")  # type: ignore[call-arg]


# What is repeated.


class Server:
    """Answers in order, and keeps what it was asked; whatever is an exception happens instead of an answer."""

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


def test_a_send_is_repeated_under_the_same_key_and_waits_as_long_as_it_is_told() -> None:
    server = Server(busy(), httpx.ReadTimeout("cut"), httpx.Response(202, json=ACCEPTED))
    assert server.client().email.send(MAIL).outbox_id == "1"
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    assert (len(server.requests), len(keys)) == (3, 1)
    assert server.waits[0] == 5.0
    assert 0.5 <= server.waits[1] <= 1.0


def test_two_sends_have_two_keys_and_a_key_of_ones_own_is_kept() -> None:
    server = Server(*(httpx.Response(202, json=ACCEPTED) for _ in range(3)))
    client = server.client()
    client.email.send(MAIL)
    client.email.send(MAIL)
    client.email.send(MAIL, idempotency_key="order-7")
    first, second, third = (request.headers["Idempotency-Key"] for request in server.requests)
    assert first != second
    assert third == "order-7"


def test_what_may_have_been_heard_and_has_no_key_is_not_repeated() -> None:
    server = Server(httpx.ReadTimeout("cut"))
    with pytest.raises(NotReached):
        server.client().campaigns.start("some-campaign")
    assert len(server.requests) == 1


def test_what_cannot_have_been_heard_is_repeated_whatever_it_is() -> None:
    server = Server(
        httpx.ConnectError("refused"), httpx.Response(409, json={"code": "NOT_POSSIBLE_NOW", "detail": "No."})
    )
    with pytest.raises(Conflict) as refused:
        server.client().campaigns.start("some-campaign")
    assert (refused.value.code, len(server.requests)) == ("NOT_POSSIBLE_NOW", 2)


def test_whoever_is_told_to_wait_too_long_gets_the_error_instead() -> None:
    server = Server(busy("3600"))
    with pytest.raises(Unavailable) as told:
        server.client().email.send(MAIL)
    assert (told.value.retry_after, told.value.request_id, server.waits) == (3600.0, "req-1", [])


def test_it_gives_up_after_so_many_attempts() -> None:
    server = Server(*(busy("0") for _ in range(3)))
    with pytest.raises(Unavailable):
        server.client(retries=Retries(attempts=3)).email.send(MAIL)
    assert len(server.requests) == 3


def test_an_error_names_each_field_and_an_answer_of_somebody_else_is_no_riddle() -> None:
    field = {"field": "to", "code": "INVALID_EMAIL", "message": "is no address"}
    server = Server(
        httpx.Response(422, json={"code": "INVALID_REQUEST", "detail": "to: is no address", "errors": [field]}),
        httpx.Response(502, text="<html>Bad Gateway</html>"),
    )
    client = server.client()
    with pytest.raises(Invalid) as invalid:
        client.email.send(MAIL)
    [problem] = invalid.value.errors
    assert (problem.field, problem.code) == ("to", "INVALID_EMAIL")
    with pytest.raises(Exception, match="HTTP_502"):
        client.email.send(MAIL)


def test_an_id_stays_one_step_of_the_path() -> None:
    server = Server(httpx.Response(404, json={"code": "NOT_FOUND", "detail": "No."}))
    with pytest.raises(Exception, match="NOT_FOUND"):
        server.client().contacts.get("a/../b?c@example.com")
    assert server.requests[0].url.raw_path == b"/v1/contacts/a%2F..%2Fb%3Fc%40example.com"


def test_a_redirect_does_not_carry_the_key_away() -> None:
    server = Server(httpx.Response(302, headers={"Location": "https://evil.example/"}))
    with pytest.raises(Exception, match="HTTP_302"):
        server.client().email.get("x")
    assert len(server.requests) == 1


def test_what_a_later_server_adds_is_passed_over() -> None:
    server = Server(httpx.Response(202, json={**ACCEPTED, "status": "BRAND_NEW", "more": 1}))
    assert server.client().email.send(MAIL).status == "BRAND_NEW"
