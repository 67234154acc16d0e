"""Each rule of a request to send, and the field and code of its error."""

from base64 import b64encode
from typing import Any

import pytest

from mailwright.actions.accepted_messages import (
    AcceptedResponse,
    BatchResponse,
    SendingHeldResponse,
    accepted_content,
    batch_content,
)
from mailwright.domain.message import Accepted
from mailwright.domain.sender_domains import AcceptWarning
from mailwright.outbox.sending_hold import HoldReason
from mailwright.sources.api.messages import RejectedItem, payload
from mailwright.sources.api.requests import parse_send
from mailwright.sources.api.validation import RequestInvalid
from tests.api import a_request

MEGABYTE = 1024 * 1024


def deep(levels: int) -> Any:
    nested: Any = "bottom"
    for _ in range(levels):
        nested = {"down": nested}
    return nested


def an_attachment(**changes: Any) -> dict[str, Any]:
    return {"filename": "a.txt", "contentType": "text/plain", "content": "aGVsbG8=", **changes}


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"to": None}, "to", "REQUIRED"),
    ({"to": 5}, "to", "WRONG_TYPE"),
    ({"to": "nobody"}, "to", "INVALID_EMAIL"),
    ({"to": "a@b"}, "to", "INVALID_EMAIL"),
    ({"to": "a@localhost"}, "to", "INVALID_EMAIL"),
    ({"cc": ["a@127.0.0.1"]}, "cc[0]", "INVALID_EMAIL"),
    ({"to": "a b@example.com"}, "to", "INVALID_EMAIL"),
    ({"to": "a@example.com\nbcc: b@example.com"}, "to", "INVALID_EMAIL"),
    ({"to": "a@example.com,b@example.com"}, "to", "INVALID_EMAIL"),
    ({"to": "żółw@example.com"}, "to", "INVALID_EMAIL"),
    ({"to": "a" * 250 + "@example.com"}, "to", "TOO_LONG"),
    ({"subject": None}, "subject", "REQUIRED"),
    ({"subject": ""}, "subject", "TOO_SHORT"),
    ({"subject": "s" * 151}, "subject", "TOO_LONG"),
    ({"subject": "Hello\nBcc: b@example.com"}, "subject", "UNSAFE_TEXT"),
    ({"subject": "Hello\u2028there"}, "subject", "UNSAFE_TEXT"),
    ({"subject": "Hello\0"}, "subject", "UNSAFE_TEXT"),
    ({"html": None}, "html", "REQUIRED"),
    ({"html": ""}, "html", "TOO_SHORT"),
    ({"html": "x" * (512 * 1024 + 1)}, "html", "TOO_LONG"),
    ({"html": "ё" * (256 * 1024 + 1)}, "html", "TOO_LARGE"),
    ({"text": "ё" * (256 * 1024 + 1)}, "text", "TOO_LARGE"),
    ({"templateId": "welcome"}, "templateId", "CONTENT_TWICE"),
    ({"templateId": "", "html": None}, "templateId", "TOO_SHORT"),
    ({"templateId": "w" * 129, "html": None}, "templateId", "TOO_LONG"),
    ({"variables": {"name": "Jane"}}, "variables", "WITHOUT_TEMPLATE"),
    ({"variables": deep(32), "html": None, "templateId": "t"}, "variables", "TOO_DEEP"),
    ({"variables": {"a": "x" * 256 * 1024}, "html": None, "templateId": "t"}, "variables", "TOO_LARGE"),
    ({"variables": ["a"]}, "variables", "WRONG_TYPE"),
    ({"from": "nobody"}, "from", "INVALID_EMAIL"),
    ({"from": "Jane jane@example.com>"}, "from", "INVALID_EMAIL"),
    ({"from": "Jane\r\nX: y <jane@example.com>"}, "from", "UNSAFE_TEXT"),
    ({"replyTo": "nobody"}, "replyTo", "INVALID_EMAIL"),
    ({"cc": ["nobody"]}, "cc[0]", "INVALID_EMAIL"),
    ({"cc": "a@example.com"}, "cc", "WRONG_TYPE"),
    ({"cc": [f"a{n}@example.com" for n in range(6)]}, "cc", "TOO_MANY"),
    ({"bcc": ["a@example.com", "nobody@"]}, "bcc[1]", "INVALID_EMAIL"),
    ({"bcc": [f"a{n}@example.com" for n in range(6)]}, "bcc", "TOO_MANY"),
    ({"headers": {"Bcc": "b@example.com"}}, "headers", "INVALID_HEADER"),
    ({"headers": {"X-A": "b\r\nBcc: c@example.com"}}, "headers", "INVALID_HEADER"),
    ({"headers": {"X A": "b"}}, "headers", "INVALID_HEADER"),
    ({"headers": {"X-A": "b", "x-a": "c"}}, "headers", "INVALID_HEADER"),
    ({"headers": {"X-A": "b" * 2_001}}, "headers.X-A", "TOO_LONG"),
    ({"headers": {"X-A": 5}}, "headers.X-A", "WRONG_TYPE"),
    ({"headers": {f"X-{n}": "b" for n in range(51)}}, "headers", "TOO_MANY"),
    ({"attachments": [an_attachment(filename="")]}, "attachments[0].filename", "TOO_SHORT"),
    ({"attachments": [an_attachment(filename="a\n.txt")]}, "attachments[0].filename", "UNSAFE_TEXT"),
    ({"attachments": [an_attachment(contentType="text")]}, "attachments[0].contentType", "INVALID"),
    ({"attachments": [an_attachment(contentType="text/plain\r\nX: y")]}, "attachments[0].contentType", "INVALID"),
    ({"attachments": [an_attachment(content="not base64!")]}, "attachments[0].content", "INVALID_BASE64"),
    ({"attachments": [an_attachment(content="aGVs\nbG8=")]}, "attachments[0].content", "INVALID_BASE64"),
    ({"attachments": [an_attachment(contentId="<x>")]}, "attachments[0].contentId", "INVALID"),
    ({"attachments": [an_attachment(path="/etc/passwd")]}, "attachments[0].path", "UNKNOWN_FIELD"),
    ({"attachments": [an_attachment()] * 21}, "attachments", "TOO_MANY"),
    ({"tags": ["a"] * 21}, "tags", "TOO_MANY"),
    ({"tags": [""]}, "tags[0]", "TOO_SHORT"),
    ({"tags": ["t" * 256]}, "tags[0]", "TOO_LONG"),
    ({"tags": ["a\0"]}, "tags[0]", "UNSAFE_TEXT"),
    ({"recipient": {"email": "somebody@example.com"}}, "recipient.email", "NOT_THE_SAME"),
    ({"recipient": {"externalId": "x" * 129}}, "recipient.externalId", "TOO_LONG"),
    ({"recipient": {"recipientId": "a\0b"}}, "recipient.recipientId", "UNSAFE_TEXT"),
    ({"recipient": {"name": "Jane\nDoe"}}, "recipient.name", "UNSAFE_TEXT"),
    ({"recipient": {"id": "7"}}, "recipient.id", "UNKNOWN_FIELD"),
    ({"scheduledAt": "tomorrow"}, "scheduledAt", "INVALID_TIME"),
    ({"scheduledAt": "0001-01-01T00:00:00+14:00"}, "scheduledAt", "INVALID_TIME"),
    ({"expiresAt": "9999-12-31T23:59:59-14:00"}, "expiresAt", "INVALID_TIME"),
    ({"scheduledAt": 1_800_000_000}, "scheduledAt", "INVALID_TIME"),
    ({"expiresAt": "2027-01-15"}, "expiresAt", "INVALID_TIME"),
    (
        {"scheduledAt": "2027-01-15T08:00:00Z", "expiresAt": "2027-01-15T08:00:00Z"},
        "expiresAt",
        "INVALID_TIME",
    ),
    ({"metadata": {"a": "x" * 16 * 1024}}, "metadata", "TOO_LARGE"),
    ({"metadata": deep(32)}, "metadata", "TOO_DEEP"),
    ({"metadata": "text"}, "metadata", "WRONG_TYPE"),
    ({"html ": "<p>"}, "html ", "UNKNOWN_FIELD"),
    ({"Subject": "Hello"}, "Subject", "UNKNOWN_FIELD"),
    ({"reply_to": "a@example.com"}, "reply_to", "UNKNOWN_FIELD"),
]


@pytest.mark.parametrize(("changes", "field", "code"), BROKEN, ids=[f"{field} {code}" for _, field, code in BROKEN])
def test_invalid_field_is_named_with_its_code(changes: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_send(a_request(**changes))
    assert (field, code) in {(error.field, error.code) for error in refused.value.errors}


def test_time_without_zone_needs_the_zone_of_the_tenant() -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_send(a_request(scheduledAt="2027-01-15T08:00:00"))
    assert [(error.field, error.code) for error in refused.value.errors] == [("scheduledAt", "TIME_WITHOUT_ZONE")]


FINE: list[dict[str, Any]] = [
    {},
    {"html": None, "text": "Hello"},
    {"text": "Hello"},
    {"html": "   "},
    {"html": "<script>alert(1)</script>"},
    {"html": None, "subject": None, "templateId": "welcome", "variables": {"name": "Jane"}},
    {"subject": "s" * 150},
    {"subject": "Grüße, привет, 你好 🎉"},
    {"html": "x" * (512 * 1024)},
    {"to": "Reader+tag@Exämple.com"},
    {"cc": [f"a{n}@example.com" for n in range(5)], "bcc": []},
    {"recipient": {"email": "READER@EXAMPLE.COM", "name": "Jane"}},
    {"recipient": {}},
    {"scheduledAt": "2027-01-15T08:00:00+03:00"},
    {"metadata": {"order": {"lines": [1, 2.5, None, True]}}},
    {"attachments": [an_attachment(contentType="text/plain; charset=utf-8", contentId="logo@shop")]},
]


@pytest.mark.parametrize("changes", FINE)
def test_valid_request_is_accepted(changes: dict[str, Any]) -> None:
    parse_send(a_request(**changes))


def test_attachments_are_limited_together() -> None:
    half = b64encode(b"x" * (5 * MEGABYTE)).decode()
    parse_send(a_request(attachments=[an_attachment(content=half)] * 2))
    with pytest.raises(RequestInvalid, match="10 MB"):
        parse_send(a_request(attachments=[an_attachment(content=half), an_attachment(content=half), an_attachment()]))


def test_list_of_recipients_names_the_fields_for_several() -> None:
    with pytest.raises(RequestInvalid, match=r"one address, not a list; name others in cc or bcc.*/v1/email/batch"):
        parse_send(a_request(to=["a@example.com", "b@example.com"]))


def test_all_errors_are_returned_together() -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_send({"to": "nobody", "cc": ["a@example.com", "b"], "extra": 1})
    assert [error.field for error in refused.value.errors] == ["to", "cc[1]", "extra"]


def test_payload_has_pipeline_names_and_no_empty_fields() -> None:
    request = parse_send(
        a_request(
            **{"from": '"Doe, Jane" <jane@Exämple.com>', "to": "Reader@Example.com", "replyTo": "help@example.com"},
            cc=["c@example.com"],
            bcc=[],
            headers={"X-Order": "7"},
            attachments=[an_attachment()],
            tags=["receipt"],
            recipient={"name": "Reader", "externalId": "42"},
            metadata={"order": 7},
        )
    )
    assert payload(request) == {
        "to": "Reader@example.com",
        "toName": "Reader",
        "from": "Doe, Jane <jane@xn--exmple-cua.com>",
        "replyTo": "help@example.com",
        "cc": ["c@example.com"],
        "subject": "Hello",
        "html": "<p>Hello</p>",
        "headers": {"X-Order": "7"},
        "attachments": [{"filename": "a.txt", "contentType": "text/plain", "content": "aGVsbG8="}],
        "tags": ["receipt"],
        "metadata": {"order": 7},
    }


def test_responses_have_the_form_of_their_models() -> None:
    results: list[Any] = [
        Accepted("0190-1", "r", "PENDING"),
        Accepted("0190-2", "r", "PENDING", warnings=(AcceptWarning("FOREIGN_FROM", "Another domain."),)),
        RejectedItem("INVALID_EMAIL", "is not an address", "to"),
    ]
    held = SendingHeldResponse(reason=HoldReason.RESTORED, since="2027-01-15T08:00:00Z", sentence="Nothing is sent.")
    for content in (batch_content([*results]), batch_content([*results], held)):
        assert BatchResponse.model_validate(content).to_dict() == content
    for message in results[:2]:
        for content in (accepted_content(message), accepted_content(message, held)):
            assert AcceptedResponse.model_validate(content).to_dict() == content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"to": "Ada <ada@example.com>"}, "recipient.name"),
        ({"to": "ada@example.com, bob@example.com"}, "must be one address"),
        ({"cc": ["Ada <ada@example.com>"]}, "must be one address"),
        ({"reply_to": "a@example.com"}, "did you mean replyTo?"),
        ({"body": "Hello"}, "did you mean html or text?"),
        ({"templateID": "a"}, "did you mean templateId?"),
    ],
)
def test_errors_say_what_to_do(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_send({"to": "ada@example.com", "subject": "Hello", "text": "Hello", **changes})
    assert message in refused.value.errors[0].message
