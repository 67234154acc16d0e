"""Replace personal links in source code that a user pasted from a sent email."""

from typing import Final

from mailwright.app.wiring import Engine
from mailwright.content.personal_links import find_personal_links, replace_personal_links, replace_tracked_links
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.tracked_links import find_targets
from mailwright.web.dashboard.forms import Fields

# Added to the confirmation after saving.
LINKS_REPLACED: Final = lazy_gettext("Links of one recipient were replaced with the pages that they lead to.")
# More links than an email has.
_MAX_TRACKED: Final = 500


async def with_targets(engine: Engine, tenant_id: int, source: str, *, is_html: bool = True) -> str:
    """Return the source with the tenant's tracked links replaced by their target URLs."""
    ids = {each.link_id for each in find_personal_links(source) if each.link_id is not None}
    targets = await find_targets(engine.database, tenant_id, list(ids)[:_MAX_TRACKED])
    return replace_tracked_links(source, targets, is_html=is_html) if targets else source


async def with_shared_links(engine: Engine, tenant_id: int, form: Fields, source: str, text: str) -> Fields:
    """Return the form with the personal links in its source and plain text replaced by links for everyone.

    Unknown tracked links stay.
    """
    changed = {
        name: replace_personal_links(await with_targets(engine, tenant_id, form[name], is_html=name == source))
        for name in (source, text)
        if form[name]
    }
    return Fields({**form, **changed})
