"""Without consent a recipient gets exactly the email that is sent without tracking."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.content.headers import Mailbox
from mailwright.content.template_store import StoredTemplate, TemplateStore
from mailwright.domain.message import Admitted, Claimed
from mailwright.domain.tracking import TrackingMode, strictest, tracking_of
from mailwright.domain.tracking_tokens import TrackingTokens
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.pipeline.compose import Composer, SenderIdentity
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.pipeline.tracking import TrackingSettings
from mailwright.storage.database import Database

NOW = 1_800_000_000_000
SECRET = "s" * 32
PARTS = (
    '<a href="https://shop.example/a?b=1&amp;c=2#d">x</a>',
    '<a href="https://shop.example/{{ name }}">y</a>',
    "<p>{{ name }} é</p>",
    "{% if name %}<b>hi</b>{% endif %}",
    '<a href="mailto:a@b.example">m</a>',
    '<a href="{{ unsubscribe_url }}">leave</a>',
    "<p>plain text</p>",
)


class OneTemplate(TemplateStore):
    def __init__(self, html: str) -> None:
        self.html = html

    def cached(self, key: int) -> StoredTemplate:
        return StoredTemplate(key, 1, "news", 1, "News", self.html, None, 0)


def a_claim(**changes: Any) -> Claimed:
    defaults: dict[str, Any] = {
        **dict.fromkeys(Claimed._fields),
        "message_key": 1,
        "claims": 0,
        "tenant_id": 1,
        "lane": 5,
        "tenant_name": "default",
        "source": "campaign",
        "outbox_id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "is_in_outbox": True,
        "external_id": "x",
        "to_email": "ann@example.com",
        "is_bulk": True,
        "received_at": NOW,
        "campaign_key": 7,
    }
    payload = {"to": "ann@example.com", **changes.pop("payload", {})}
    return Claimed(**{**defaults, "payload": payload, **changes})


def content_of(claimed: Claimed, html: str, mode: TrackingMode | None) -> bytes:
    """Return the email that a worker of an installation with this mode builds; None is one without the feature."""
    tracking = None if mode is None else TrackingSettings(mode, TrackingTokens(SECRET))
    identity = SenderIdentity(
        Mailbox("shop@example.com"),
        None,
        "https://mail.example/unsubscribe",
        UnsubscribeTokens(SECRET),
        public_url="https://mail.example",
        tracking=tracking,
    )
    database = Database("sqlite:///unused.db")
    composer = Composer(database, OneTemplate(html), identity)
    ready = composer.prepare(Admitted(claimed), NOW)
    assert isinstance(ready, ReadyMessage), ready
    return ready.outgoing.content


@pytest.mark.promise("tracking-needs-consent")
@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PARTS)), st.text("abc <&\"'é/", max_size=20), st.booleans())
def test_email_without_consent_is_byte_identical(parts: list[str], name: str, has_template: bool) -> None:
    html = f"<p>News</p>{''.join(parts)}"
    fields: dict[str, Any] = {"payload": {"variables": {"name": name}}, "template_key": 1}
    if not has_template:
        fields = {"payload": {"subject": "News", "html": html, "tracking": "individual"}}
    undecided = a_claim(consents_to_tracking=None, **fields)
    assert content_of(undecided, html, TrackingMode.INDIVIDUAL) == content_of(undecided, html, None)
    refused = a_claim(consents_to_tracking=False, **fields)
    for mode in TrackingMode:
        assert content_of(refused, html, mode) == content_of(refused, html, None)
    agreed = a_claim(consents_to_tracking=True, **fields)
    assert content_of(agreed, html, TrackingMode.INDIVIDUAL) != content_of(agreed, html, None)


@pytest.mark.promise("tracking-needs-consent")
@given(st.lists(st.sampled_from([None, *TrackingMode]), min_size=1), st.sampled_from([*TrackingMode]))
def test_no_level_widens_tracking(levels: list[TrackingMode | None], installation: TrackingMode) -> None:
    order = [*TrackingMode]
    found = strictest(installation, *levels)
    assert all(order.index(found) <= order.index(mode) for mode in (installation, *levels) if mode is not None)
    assert found in (installation, *levels)


def test_transactional_message_without_setting_is_off() -> None:
    claimed = a_claim(is_bulk=False, consents_to_tracking=True)
    assert tracking_of(TrackingMode.INDIVIDUAL, claimed) is TrackingMode.OFF


def test_anonymous_mode_needs_a_campaign_and_no_consent() -> None:
    assert tracking_of(TrackingMode.ANONYMOUS, a_claim()) is TrackingMode.ANONYMOUS
    assert tracking_of(TrackingMode.ANONYMOUS, a_claim(consents_to_tracking=False)) is TrackingMode.OFF
    assert tracking_of(TrackingMode.ANONYMOUS, a_claim(campaign_key=None)) is TrackingMode.OFF
