"""Traces have one span per attempt, and are off without an exporter."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mailwright.domain.message import Claimed, Delivered
from mailwright.ops import tracing


def a_delivery() -> Delivered:
    claimed = Claimed(
        message_key=1,
        claim_token=1,
        tenant_id=7,
        lane=7,
        attempts=0,
        claims=1,
        resends=0,
        tenant_name="acme",
        created_at=900,
        is_in_outbox=True,
        outbox_id="id-1",
        source="api",
        request_id="request-1",
        to_email="ada@example.com",
        payload={},
        template_key=None,
        retry_policy="standard",
        is_bulk=False,
        expires_at=None,
        recipient_id=None,
        external_id="1",
        contact_email=None,
        is_contact_deleted=False,
        suppressed_because=None,
        leased_until=0,
        received_at=1_000,
    )
    return Delivered(claimed, 1_010, 1_020, 1_500, "smtp", "queue-1")


def test_attempt_is_one_span_with_times_and_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    tracing.record([a_delivery()], now=1_600)
    [span] = exporter.get_finished_spans()
    assert (span.start_time, span.end_time) == (1_000_000_000, 1_500_000_000)
    assert span.attributes is not None
    assert span.attributes["mailwright.outbox_id"] == "id-1"
    assert span.attributes["mailwright.request_id"] == "request-1"
    assert span.attributes["mailwright.provider_message_id"] == "queue-1"


def test_without_an_exporter_tracing_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    tracing.configure()
    assert not tracing.is_on()
