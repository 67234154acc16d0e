"""A newsletter of the shop, made of blocks, to open in the composer."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from mailwright.app.wiring import Engine
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft

TEMPLATE_ID: Final = "spring-newsletter"
_SHOP: Final = "https://example.com/shop"
_CHIP: Final = '<span data-variable="name" data-fallback="there">name</span>'


def _card(card_id: str, title: str, text: str, image: str, alt: str) -> dict[str, Any]:
    link = {"href": f"{_SHOP}/{card_id}", "label": "Have a look"}
    return {"id": card_id, "type": "card", "image": image, "alt": alt, "title": title, "html": f"<p>{text}</p>", **link}


def _blocks(images: Mapping[str, str]) -> list[dict[str, Any]]:
    difference = ("Difference Engine", "Tables without errors, for every sailor.", images["engine.png"])
    mill = ("The Mill", "The heart of the engine, now half as loud.", images["mill.png"])
    return [
        {"id": "header", "type": "header", "alt": "Analytical Engines", "href": _SHOP},
        {
            "id": "picture",
            "type": "image",
            "src": images["harbour.png"],
            "alt": "A sailing boat in the harbour at sunrise",
            "href": _SHOP,
        },
        {"id": "title", "type": "heading", "level": 1, "html": "Spring at the workshop"},
        {
            "id": "intro",
            "type": "text",
            "html": f"<p>Hello {_CHIP},</p><p>the <strong>new catalogue</strong> has twelve machines, built by hand in "
            f'London. <a href="{_SHOP}">Look inside</a> before it goes to print.</p>',
        },
        {"id": "open", "type": "button", "label": "Open the catalogue", "href": f"{_SHOP}/catalogue"},
        {
            "id": "machines",
            "type": "columns",
            "columns": [
                {"blocks": [_card("difference", *difference, "Rows of brass wheels")]},
                {"blocks": [_card("mill", *mill, "Four brass wheels that turn each other")]},
            ],
        },
        {
            "id": "quote",
            "type": "quote",
            "html": "<p>It might act upon other things besides number.</p>",
            "cite": "Ada",
        },
        {
            "id": "collectors",
            "type": "condition",
            "segment": "collectors",
            "blocks": [{"id": "early", "type": "text", "html": "<p>Collectors may order one week before others.</p>"}],
        },
        {"id": "social", "type": "social", "links": [{"network": "web", "href": "https://example.com"}]},
        {"id": "footer", "type": "footer"},
    ]


async def load_newsletter(engine: Engine, tenant_id: int) -> None:
    """Store the newsletter. Its images must be in the library."""
    named = await engine.images.named(tenant_id, ["harbour.png", "engine.png", "mill.png"])
    images = {name: engine.images.url(image, engine.public_url) for name, image in named.items()}
    preheader = "Twelve new machines, and a visit to the workshop"
    body = orjson.dumps({"version": 1, "preheader": preheader, "blocks": _blocks(images)}).decode()
    subject = 'Spring at the workshop, {{ name|default("dear friend", true) }}'
    draft = TemplateDraft(subject=subject, body=body, format=TemplateFormat.BLOCKS)
    await engine.templates.write(tenant_id, TEMPLATE_ID, draft)
