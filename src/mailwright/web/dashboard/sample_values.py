"""The values with which previews and test emails fill a template."""

import re
from typing import Any, Final

from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.audience.segments import load_memberships
from mailwright.content.segments_used import IN_SEGMENTS, segments_used
from mailwright.content.template_store import StoredTemplate
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.translation import gettext

_LOOP: Final = re.compile(r"\{%-?\s*for\s+(\w+)\s+in\s+(\w+)\s*-?%\}")


async def preview_values(engine: Engine, tenant_id: int, stored: StoredTemplate, email: str) -> dict[str, Any]:
    """Return the values of the contact with this address, and samples for its missing values.

    Without a contact, return only samples.
    """
    used = segments_used(stored.subject, stored.html, stored.text)
    samples = {**sample_values(stored), IN_SEGMENTS: dict.fromkeys(used, True)}
    if not email:
        return samples
    try:
        found = await contacts.find_by_email(engine.database, tenant_id, email)
    except NotFound as error:
        raise InvalidInput(gettext("There is no contact with this address."), field="as_contact") from error
    async with engine.database.read() as tx:
        members = await load_memberships(tx, tenant_id, used, [found.email], engine.clock.now())
    own = {"email": found.email, "name": found.name or "", IN_SEGMENTS: members[found.email]}
    return {**samples, **found.attributes, **own}


def sample_values(stored: StoredTemplate) -> dict[str, Any]:
    """Return the samples. A required variable without a sample gets its own name as value."""
    named = {
        each.name: f"[{each.name}]" for each in stored.expected_variables() if each.is_required and each.sample is None
    }
    return named | _rows(stored, {each.name for each in stored.expected_variables() if each.sample is None})


def _rows(stored: StoredTemplate, names: set[str]) -> dict[str, Any]:
    """Return one sample row for each list that the template loops over."""
    return {
        name: [{field: f"[{field}]" for field in re.findall(rf"\b{row}\.(\w+)", stored.html)} or f"[{row}]"]
        for row, name in _LOOP.findall(stored.html)
        if name in names
    }
