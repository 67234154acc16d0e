"""Traces: one span for each attempt, from the claim to the result.

Configured by OpenTelemetry's own variables: `OTEL_EXPORTER_OTLP_ENDPOINT` enables it.
"""

import os
import sys
from collections.abc import Iterable

from mailwright.domain.clock import Instant
from mailwright.domain.message import Delivered, Outcome
from mailwright.ops.logs import logger

log = logger(__name__)


def configure() -> None:
    """Configure the exporter, if one is set. Call once, at the start of a process."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 - imported only if tracing is enabled
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        log.warning("tracing_not_installed", message="Install the tracing extra: pip install 'mailwright[tracing]'")
        return
    provider = TracerProvider(resource=Resource.create({"service.name": "mailwright"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def record(outcomes: Iterable[Outcome], now: Instant) -> None:
    """Write the spans of finished attempts with their actual times, after the fact, so that sending stays fast."""
    from opentelemetry import trace  # noqa: PLC0415 - imported only if tracing is enabled

    tracer = trace.get_tracer("mailwright")
    for outcome in outcomes:
        claimed = outcome.claimed
        span = tracer.start_span("deliver", start_time=_nanoseconds(claimed.received_at))
        if span.is_recording():
            span.set_attribute("mailwright.outbox_id", claimed.outbox_id)
            span.set_attribute("mailwright.request_id", claimed.request_id)
            span.set_attribute("mailwright.tenant_id", claimed.tenant_id)
            span.set_attribute("mailwright.attempt", claimed.attempt)
            if isinstance(outcome, Delivered):
                span.set_attribute("mailwright.state", "SENT")
                span.set_attribute("mailwright.provider_message_id", outcome.provider_message_id or "")
            else:
                span.set_attribute("mailwright.state", outcome.status)
                span.set_status(trace.Status(trace.StatusCode.ERROR, outcome.error_code))
        span.end(_nanoseconds(outcome.sent_at if isinstance(outcome, Delivered) else now))


def is_on() -> bool:
    """Return whether a tracer is configured."""
    trace = sys.modules.get("opentelemetry.trace")  # Every tracer imports this module.
    return trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _nanoseconds(instant: Instant) -> int:
    return instant * 1_000_000
