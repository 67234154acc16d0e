"""Recipients of copies."""

from dataclasses import replace

from tests.builders import Bench, a_message_with
from tests.standins.provider import ScriptedProvider


async def test_address_named_twice_gets_the_message_once(bench: Bench) -> None:
    message = a_message_with(
        to="reader@example.com",
        cc=["Reader@Example.com", "boss@example.com", "Boss@example.com", "c@b\u00fccher.example"],
        bcc=["boss@example.com", "C@xn--bcher-kva.example", "d@example.com", "d@example.com"],
    )
    await bench.accept(replace(message, to_email="reader@example.com"))
    provider = ScriptedProvider()
    await (await bench.worker(provider)).run(drain=True)
    [sent] = provider.messages
    assert sent.recipients == ("reader@example.com", "boss@example.com", "c@xn--bcher-kva.example", "d@example.com")
    assert sent.content.count(b"boss@example.com") == 1
    assert sent.content.count(b"reader@example.com") == 1
