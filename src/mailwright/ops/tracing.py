"""Traces: one span for each attempt, from the claim to the result, when an exporter is configured. Off otherwise.

The names are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT` turns it on, `OTEL_SERVICE_NAME` and the others hold.
"""

import os
import sys
from collections.abc import Iterable

from mailwright.domain.clock import Instant
from mailwright.domain.message import Delivered, Outcome
from mailwright.ops.logs import logger

log = logger(__name__)


def configure() -> None:
    """Call once, at the start of a process."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 - only whoever traces pays for it
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        log.warning("tracing_not_installed", message="Traces need the extra: pip install 'mailwright[tracing]'")
        return
    provider = TracerProvider(resource=Resource.create({"service.name": "mailwright"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def record(outcomes: Iterable[Outcome], now: Instant) -> None:
    """Spans are written afterwards, with their true times: the road itself pays nothing for them."""
    from opentelemetry import trace  # noqa: PLC0415 - only whoever traces pays for it

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
    """Whether anybody set up a tracer: without one there is nothing to write spans for."""
    trace = sys.modules.get("opentelemetry.trace")  # nobody sets up a tracer without it
    return trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _nanoseconds(instant: Instant) -> int:
    return instant * 1_000_000
