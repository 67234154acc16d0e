"""The webhooks of named providers."""

from mailwright.app.inbound import make_configured
from mailwright.app.named_providers import NamedProvider, NamedProviders
from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.inbound_webhooks import InboundWebhooks, ProviderReports, ReportRecorder
from mailwright.events.reports import Reports
from mailwright.ops.provider_kinds import KINDS


@dataclass(frozen=True, slots=True)
class NamedWebhook:
    """The webhook of a named provider, with its own secret."""

    kind: str
    webhooks: InboundWebhooks


def make_named_webhooks(named: NamedProviders, reports: Reports, clock: Clock) -> dict[str, NamedWebhook]:
    return {
        each.name: NamedWebhook(each.kind, _make_named_webhook(each, ProviderReports(reports, each.name), clock))
        for each in named.by_name.values()
        if each.problem is None
    }


def _make_named_webhook(provider: NamedProvider, reports: ReportRecorder, clock: Clock) -> InboundWebhooks:
    """Return the webhook of a named provider, which always needs its own key or secret."""
    kind = KINDS[provider.kind]
    is_configured = kind.webhook is not None and bool(getattr(provider.settings, kind.webhook.setting))
    return InboundWebhooks(reports, make_configured([kind], provider.settings, clock) if is_configured else {})
