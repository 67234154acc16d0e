"""Templates of blocks for tests of the composer."""

import json
from typing import Any, Final

from mailwright.app.wiring import Engine
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import StoredTemplate, TemplateDraft
from tests.builders import DEFAULT_TENANT

DOCUMENT: Final[dict[str, Any]] = {
    "version": 1,
    "blocks": [
        {"id": "title", "type": "heading", "level": 1, "html": "Spring news"},
        {"id": "words", "type": "text", "html": "<p>The catalogue is here.</p>"},
        {"id": "more", "type": "button", "label": "Open the catalogue", "href": "https://example.com/catalogue"},
        {"id": "end", "type": "footer"},
    ],
}


def a_block_draft(document: dict[str, Any] = DOCUMENT, subject: str = "Spring news", **changes: Any) -> TemplateDraft:
    return TemplateDraft(subject=subject, body=json.dumps(document), format=TemplateFormat.BLOCKS, **changes)


async def a_block_template(
    engine: Engine, template_id: str, document: dict[str, Any] = DOCUMENT, tenant_id: int = DEFAULT_TENANT
) -> StoredTemplate:
    return await engine.templates.write(tenant_id, template_id, a_block_draft(document), actor="test")
