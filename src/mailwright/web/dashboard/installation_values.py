"""The settings of the installation, as its pages show them."""

from typing import Any, Final

from mailwright.access.roles import Forbidden
from mailwright.app.stored_settings import EffectiveSettings, load_effective
from mailwright.app.wiring import Engine
from mailwright.domain.clock import SECOND
from mailwright.domain.translation import gettext
from mailwright.ops.catalogues import LANGUAGES
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.stored import SECRETS
from mailwright.outbox.workers import list_present
from mailwright.web.dashboard.forms import Fields
from mailwright.web.dashboard.stored_forms import (
    ENCRYPTIONS,
    SENDER_FIELDS,
    SMTP_AUTHS,
    TRACKING_MODES,
    limit_values,
    provider_values,
    secret_notes,
    sender_values,
)
from mailwright.web.session import Visitor

# Workers use changed settings within two seconds. A worker that has not done so after this time is named.
REPORT_GRACE: Final = 8 * SECOND


def require_installation(visitor: Visitor) -> None:
    if visitor.user.tenant_id is not None:
        raise Forbidden(gettext("Only administrators of the installation can change this."))


async def installation_values(engine: Engine, visitor: Visitor, form: Fields | None = None) -> dict[str, Any]:
    """Return the values of the forms for the installation, and which of them are fixed outside the dashboard."""
    effective = await load_effective(engine.settings, engine.database)
    used = effective.settings
    fixed = {name: origin.text for name, origin in effective.fixed.items()}
    if "route" in used.base.model_fields_set and not used.dry_run:
        fixed["provider"] = gettext("set by MAILWRIGHT_ROUTE")
    given = form or Fields()
    return {
        "may_change_installation": visitor.user.tenant_id is None,
        "fixed": fixed,
        "languages": [*LANGUAGES.items()],
        "problems": effective.problems,
        "outdated": await _outdated_workers(engine, effective),
        "used": used,
        "sender_form": given if "sender_address" in given else sender_values(used),
        "provider_form": given if "provider" in given else provider_values(used),
        "limit_form": given if "default_rate_per_hour" in given else limit_values(used),
        "secrets": secret_notes(used),
        # The settings of each form, to hide the button of a form that cannot change anything.
        "sender_fields": ("sender", *SENDER_FIELDS),
        "provider_fields": KINDS[used.provider].form_settings if "provider" in fixed else ("provider",),
        "provider_kinds": KINDS,
        "secret_settings": SECRETS,
        "encryptions": ENCRYPTIONS,
        "smtp_auths": SMTP_AUTHS,
        "tracking_modes": TRACKING_MODES,
    }


async def _outdated_workers(engine: Engine, effective: EffectiveSettings) -> list[str]:
    """Return the workers that do not use the stored settings yet."""
    now = engine.clock.now()
    changed_at = max((each.updated_at for each in effective.stored.values()), default=0)
    if now - changed_at < REPORT_GRACE:
        return []
    present = [each for each in await list_present(engine.database, now) if not each.is_silent(now)]
    return sorted({each.worker for each in present if each.settings_version not in (None, effective.version)})
