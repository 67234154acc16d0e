"""The code examples of docs/webhooks.md, run against our requests."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mailwright.domain.states import WEBHOOK_EVENT_TYPES
from mailwright.events.outbound import signature
from mailwright.events.outbound.deliveries import LEASE, SCHEDULE
from mailwright.events.outbound.dispatcher import TIMEOUT_SECONDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")
NOW = 1_800_000_000
BODY = '{"id":"1","type":"bounce","to":"ада@example.com"}'.encode()


@pytest.fixture
def is_genuine() -> Callable[..., bool]:
    [snippet] = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(snippet, "docs/webhooks.md", "exec"), names)
    found: Callable[..., bool] = names["is_genuine"]
    return found


def test_documented_receiver_accepts_our_requests(is_genuine: Callable[..., bool]) -> None:
    secret, other = signature.make_secret(), signature.make_secret()
    header = signature.signature_header([other, secret], NOW, BODY)
    assert is_genuine(secret, header, BODY, NOW)
    assert is_genuine(other, header, BODY, NOW + 299)


def test_documented_receiver_rejects_other_requests(is_genuine: Callable[..., bool]) -> None:
    secret = signature.make_secret()
    header = signature.signature_header([secret], NOW, BODY)
    refused = [
        is_genuine("another secret", header, BODY, NOW),
        is_genuine(secret, header, BODY + b" ", NOW),
        is_genuine(secret, header, BODY, NOW + 301),
        is_genuine(secret, header, BODY, NOW - 301),
        is_genuine(secret, header.replace(f"t={NOW}", f"t={NOW + 1}"), BODY, NOW),
        is_genuine(secret, f"t={NOW},{header}", BODY, NOW),
        is_genuine(secret, f"t={NOW}", BODY, NOW),
        is_genuine(secret, "", BODY, NOW),
        is_genuine(secret, "t=x,v1=y", BODY, NOW),
    ]
    assert not any(refused)


def test_documentation_lists_types_and_schedule() -> None:
    assert [each for each in WEBHOOK_EVENT_TYPES if f"`{each}`" not in PAGE] == []
    assert f"{SCHEDULE.max_attempts} times" in " ".join(PAGE.split())
    assert f"within {TIMEOUT_SECONDS:.0f} seconds" in " ".join(PAGE.split())


def test_lease_outlasts_the_slowest_request() -> None:
    assert LEASE > 2 * TIMEOUT_SECONDS * 1000
