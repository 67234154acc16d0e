"""django-anymail's SparkPost backend sends to our stand-in, so the stand-in takes what other clients send."""

import asyncio

import pytest

from tests.anymail_messages import a_django_message, configure_django
from tests.standins.sparkpost import SparkPostStandIn
from tests.standins.vendors import KEY

pytest.importorskip("anymail", reason="django-anymail is not installed")

from anymail.backends.sparkpost import EmailBackend
from anymail.exceptions import AnymailAPIError

configure_django()


async def test_anymail_sends_to_the_stand_in() -> None:
    async with SparkPostStandIn() as server:
        backend = EmailBackend(api_key=KEY, subaccount="42", api_url=f"{server.url}/api/v1/")
        message = a_django_message()
        assert await asyncio.to_thread(backend.send_messages, [message]) == 1
        assert message.anymail_status.message_id == server.message_ids[0]
        assert message.anymail_status.status == {"queued"}
        [taken] = server.messages
        assert not server.violations
    assert taken["subaccount"] == "42"
    assert {each["address"]["email"] for each in taken["recipients"]} == {
        "jane@example.org",
        "copy@example.com",
        "hidden@example.com",
    }


async def test_anymail_reads_the_errors_of_the_stand_in() -> None:
    async with SparkPostStandIn() as server:
        server.answer(server.refusal(400, "7001: Invalid domain"))
        backend = EmailBackend(api_key=KEY, api_url=f"{server.url}/api/v1/")
        with pytest.raises(AnymailAPIError) as error:
            await asyncio.to_thread(backend.send_messages, [a_django_message()])
        assert "Invalid domain" in str(error.value)
