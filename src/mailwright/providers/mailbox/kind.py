"""The `mailbox` provider: its settings, form, events and limits."""

from typing import Final

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, SpfKind

KIND: Final = ProviderKind(
    name="mailbox",
    package=__package__,
    label=lazy_gettext("Local mailbox"),
    phrase=lazy_gettext("the local mailbox"),
    summary=lazy_gettext("To try things out: nobody receives anything"),
    order=90,
    is_local=True,
    needs_http=False,
    signs_dkim=False,
    spf=SpfKind(has_own_return_path=False),
)
