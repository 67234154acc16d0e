"""The API reference: its examples are run and validated as they stand on the pages."""

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

import mailwright_client
from mailwright.web.api_reference.document import Reference

CHECKOUT = Path(__file__).parents[2]
# A test of the generated pages compares this file with the code.
DOCUMENT: dict[str, Any] = json.loads((CHECKOUT / "docs/openapi.json").read_text(encoding="utf-8"))
REFERENCE = Reference(DOCUMENT)
OPERATIONS = [each for group in REFERENCE.groups.values() for each in group.operations]


def test_reference_has_every_operation_once() -> None:
    described = [(verb.upper(), path) for path, verbs in DOCUMENT["paths"].items() for verb in verbs]
    assert sorted((each.verb, each.path) for each in OPERATIONS) == sorted(described)
    assert len({(each.group, each.anchor) for each in OPERATIONS}) == len(OPERATIONS)


class _Sent(Exception):
    """A request left."""


def test_python_examples_send_the_described_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sent: list[httpx.Request] = []

    def record(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        raise _Sent

    class Recording(mailwright_client.Client):
        def __init__(self, url: str, key: str) -> None:
            super().__init__(url, key, transport=httpx.MockTransport(record))

    monkeypatch.setattr(mailwright_client, "Client", Recording)
    for each in (one for one in OPERATIONS if one.python):
        if each.request.media_type and not each.request.model:
            Path(each.request.file).write_bytes(b"content")
        with pytest.raises(_Sent):
            exec(each.python, {"url": "http://mail.example", "key": "key"})
        request = sent.pop()
        assert (request.method, request.url.raw_path.decode()) == (each.verb, each.request.url), each.python
        if each.request.model:
            assert json.loads(request.content) == each.request.body, each.python


def test_sample_bodies_are_valid() -> None:
    problems = {}
    for each in (one for one in OPERATIONS if one.request.model):
        schema = {"$ref": f"#/components/schemas/{each.request.model}", "components": DOCUMENT["components"]}
        if found := [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(each.request.body)]:
            problems[each.request.method] = (each.request.body, found)
    assert problems == {}


def test_curl_examples_have_the_path_the_key_and_the_body() -> None:
    for each in OPERATIONS:
        assert f'"$MAILWRIGHT_URL{each.request.url}"' in each.curl
        assert "{" not in each.request.url
        assert ("Authorization" in each.curl) == bool(each.request.method)
        assert (" -d " in each.curl) == bool(each.request.model)


def test_fields_name_their_type_limits_and_depth() -> None:
    [send] = [each for each in OPERATIONS if each.request.method == "email.send"]
    found = {each.name: each for each in send.body if not each.depth}
    assert (found["to"].type, found["to"].is_required) == ("email (at most 254 characters)", True)
    assert found["tags"].type.startswith("list of string")
    assert found["scheduledAt"].type == "time"
    assert "off" in found["tracking"].type
    assert any(each.depth == 1 for each in send.body)
