"""django-anymail's Mailjet backend sends to our stand-in, so the stand-in takes what other clients send."""

import asyncio

import pytest

from tests.anymail_messages import a_django_message, configure_django
from tests.standins.mailjet import SECRET_KEY, MailjetStandIn
from tests.standins.vendors import KEY

pytest.importorskip("anymail", reason="django-anymail is not installed")

from anymail.backends.mailjet import EmailBackend
from anymail.exceptions import AnymailAPIError

configure_django()


async def test_anymail_sends_to_the_stand_in() -> None:
    async with MailjetStandIn() as server:
        backend = EmailBackend(api_key=KEY, secret_key=SECRET_KEY, api_url=f"{server.url}/v3.1/")
        message = a_django_message()
        assert await asyncio.to_thread(backend.send_messages, [message]) == 1
        assert message.anymail_status.message_id == server.message_ids[0]
        assert message.anymail_status.status == {"sent"}
        [taken] = server.messages
        assert not server.violations
    assert (taken["Subject"], taken["TrackClicks"], taken["Cc"]) == (
        "Grüße",
        "disabled",
        [{"Email": "copy@example.com"}],
    )


async def test_anymail_reads_the_errors_of_the_stand_in() -> None:
    async with MailjetStandIn() as server:
        backend = EmailBackend(api_key=KEY, secret_key="wrong", api_url=f"{server.url}/v3.1/")
        with pytest.raises(AnymailAPIError) as error:
            await asyncio.to_thread(backend.send_messages, [a_django_message()])
        assert "no such key" in str(error.value)
        server.answer(server.refusal(403, "send-0008: not authorized"))
        message = a_django_message()
        backend = EmailBackend(api_key=KEY, secret_key=SECRET_KEY, api_url=f"{server.url}/v3.1/", fail_silently=True)
        await asyncio.to_thread(backend.send_messages, [message])
        assert message.anymail_status.status == {"failed"}
