"""Forms that are derived from the input of an action."""

from typing import Annotated, Any

from fastapi import Request
from pydantic import Field

from mailwright.actions.lists import ListRequest, ListUpdateRequest, SubscribeRequest
from mailwright.actions.webhooks import WebhookRequest
from mailwright.domain.errors import InvalidInput
from mailwright.sources.api.fields import RequestModel
from mailwright.web.dashboard.forms import FORM
from mailwright.web.dashboard.input_forms import Control, InputForm


class Limits(RequestModel):
    most: Annotated[int | None, Field(ge=1)] = None


def a_request(body: str) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


async def same(wanted: Any) -> Any:
    return wanted


def test_control_has_the_limits_of_the_model() -> None:
    assert InputForm(SubscribeRequest).control("email") == Control("email", "", True, 254)
    assert InputForm(ListRequest, name="News").control("name") == Control("text", "News", False, 200)
    assert InputForm(ListRequest).control("isPublic") == Control("checkbox", "yes", False, None)


async def test_field_that_is_not_on_the_page_keeps_its_default() -> None:
    form = await InputForm(WebhookRequest).read(a_request("url=https%3A%2F%2Fexample.com&types=bounce&types=complaint"))
    made = await form.submit(same)
    assert made is not None
    assert (made.is_active, made.types) == (True, ("bounce", "complaint"))
    assert (form.has("types", "bounce"), form.has("types", "open")) == (True, False)


async def test_empty_text_is_left_out_unless_the_model_takes_it() -> None:
    form = await InputForm(ListUpdateRequest).read(a_request("name=&description=&isPublic=no&isPublic=yes&tracking="))
    changed = await form.submit(same)
    assert changed is not None
    assert changed.model_dump(exclude_unset=True) == {"description": "", "is_public": True}


async def test_error_appears_beside_its_field_and_input_is_kept() -> None:
    form = await InputForm(ListRequest).read(a_request(f"name={'N' * 201}&listKey=Bad+Key"))
    assert await form.submit(same) is None
    assert (form.errors.keys(), form.status) == ({"name", "listKey"}, 422)
    assert (form["name"], form["listKey"]) == ("N" * 201, "Bad Key")


async def test_error_of_a_missing_field_appears_above_the_form() -> None:
    form = await InputForm(ListUpdateRequest).read(a_request("name=News"))
    form.fail(InvalidInput("This list was deleted.", field="listKey"))
    assert dict(form.errors) == {FORM: "This list was deleted."}


async def test_number_is_read_as_people_write_it() -> None:
    form = await InputForm(Limits).read(a_request("most=1,000"))
    assert (await form.submit(same)) == Limits(most=1_000)
    wrong = await InputForm(Limits).read(a_request("most=many"))
    assert await wrong.submit(same) is None
    assert wrong.errors.keys() == {"most"}
