"""The `smtp` provider: its settings, form, events and limits."""

from typing import Final

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, SmtpServerFields, SpfKind

KIND: Final = ProviderKind(
    name="smtp",
    package=__package__,
    label=lazy_gettext("SMTP server"),
    phrase=lazy_gettext("the SMTP server"),
    summary=lazy_gettext("Your own mail server, or any service with an SMTP login"),
    order=10,
    form=(
        SmtpServerFields(
            "smtp_url",
            "smtp.example.com",
            question="URL of the SMTP server, smtp://user:password@host:587",
            has_oauth=True,
        ),
    ),
    required=("smtp_url",),
    optional=(
        "smtp_connections",
        "oauth_token_url",
        "oauth_client_id",
        "oauth_client_secret",
        "oauth_refresh_token",
        "oauth_service_account",
        "oauth_scope",
    ),
    account=("smtp_url",),
    stdin_setting="smtp_url",
    server_urls=("smtp_url",),
    needs_http=False,
    signs_dkim=False,
    spf=SpfKind(has_own_return_path=False),
    from_refused=("SMTP_SENDER_NOT_VERIFIED",),
    sender_not_allowed=("SMTP_SENDER_NOT_ALLOWED",),
)
