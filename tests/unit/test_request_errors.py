"""Every invalid value of every request is reported in a sentence of our own, never in the words of the validator."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from mailwright import schemas
from mailwright.actions.articles import ArticleSendRequest
from mailwright.schemas.base import ResponseModel
from mailwright.sources.api import requests
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse, parse_strict
from mailwright.web.api.dropin.postmark import PostmarkEmail

WRONG_VALUES: list[Any] = [
    None,
    True,
    -1,
    5,
    5.5,
    2**63 - 1,
    "",
    "a",
    "no such value!",
    "line\nbreak",
    "x" * 1_000_000,
    "2027-01-15T08:00:00",
    [],
    ["no such value!"],
    [5] * 2_000,
    [{}],
    {},
    {"a": 5},
    {"Bcc": "b@example.com"},
]
# Words and characters of validators, patterns and Python types.
NOT_OURS = re.compile(
    r"validat|field required|extra inputs|should be|\btuple\b|\bdict|\bstr\b|\bint\b|\bfloat\b|\bbool\b|(?-i:\bNone\b)|"
    r"pydantic|pattern|regex|[\\^$]|\[[a-z]-[a-z]|\{\d",
    re.IGNORECASE,
)


def request_models() -> Iterator[type[BaseModel]]:
    names = [name for _, name, _ in pkgutil.iter_modules(schemas.__path__, "mailwright.schemas.")]
    for module in [requests, *map(importlib.import_module, names)]:
        for model in vars(module).values():
            is_model = isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
            if is_model and not issubclass(model, ResponseModel):
                yield model


def errors_of(model: type[BaseModel], body: Any) -> Iterator[FieldError]:
    for parser in (parse, parse_strict):
        try:
            parser(model, body)
        except RequestInvalid as invalid:
            yield from invalid.errors


@pytest.mark.parametrize("model", request_models(), ids=lambda model: model.__name__)
def test_invalid_fields_are_described_in_plain_sentences(model: type[BaseModel]) -> None:
    names = [field.alias or name for name, field in model.model_fields.items()]
    bodies = [{}, [], None, {"unknown": 1}, *({name: value} for name in names for value in WRONG_VALUES)]
    errors = {error for body in bodies for error in errors_of(model, body)}
    assert errors
    assert [error for error in errors if NOT_OURS.search(error.message) or not error.message.strip()] == []
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", error.code) for error in errors)


TEXTS = ["x" * 1_000_000, "x" * 600, "x" * 101, ""]


@pytest.mark.parametrize("model", request_models(), ids=lambda model: model.__name__)
def test_limit_of_a_text_counts_characters(model: type[BaseModel]) -> None:
    names = [field.alias or name for name, field in model.model_fields.items()]
    bodies = [{name: value} for name in names for value in TEXTS]
    errors = {error for body in bodies for error in errors_of(model, body)}
    assert [error for error in errors if re.search(r"\bitems?\b", error.message)] == []
    assert not {error.code for error in errors} & {"TOO_MANY", "TOO_FEW"}


def test_article_tag_over_its_limit_says_characters() -> None:
    body = {"campaign_tag": "a" * 101, "article_key": "spring", "send_batch_id": "7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f"}
    [error, *_] = errors_of(ArticleSendRequest, body)
    assert (error.field, error.code, error.message) == ("campaign_tag", "TOO_LONG", "must have at most 100 characters")


def test_limits_of_drop_in_addresses_are_stated() -> None:
    [error, *_] = errors_of(PostmarkEmail, {"From": "a@b.co", "To": "x" * 200_000})
    assert (error.code, error.message) == ("TOO_LONG", "must have at most 131,072 characters")
