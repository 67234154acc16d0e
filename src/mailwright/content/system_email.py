"""The design of emails that Mailwright writes itself, such as the confirmation of a subscription."""

from html import escape

from mailwright.content.brand import Brand
from mailwright.content.colors import WHITE, readable_on, with_contrast
from mailwright.domain.system_email import SystemEmail


def render_system_email(content: SystemEmail, brand: Brand) -> str:
    """Return the HTML in the tenant's design. Tables and attributes are for Outlook, which ignores most CSS."""
    font = f"font-family:{brand.font_stack}"
    text = with_contrast(brand.text, WHITE)
    quiet = f"margin:24px 0 0;color:#5b5e68;font-size:14px;line-height:21px;{font}"
    button = (
        f'<td bgcolor="{brand.primary}" style="border-radius:6px"><a href="{escape(content.link)}" '
        f'style="display:inline-block;padding:12px 24px;color:{readable_on(brand.primary)};font-size:16px;'
        f'line-height:20px;font-weight:bold;text-decoration:none;{font}">{escape(content.button)}</a></td>'
    )
    card = (
        f'<td bgcolor="{WHITE}" style="padding:32px;border-radius:8px">{_header(brand, text)}'
        f'<p style="margin:0 0 24px;color:{text};font-size:16px;line-height:24px;{font}">{escape(content.body)}</p>'
        f"{_table(button)}"
        f'<p style="{quiet}">{escape(content.note)}</p>{_address(brand, quiet)}</td>'
    )
    inner = _table(card, 'width="100%" style="max-width:560px"')
    outer = f'<td align="center" bgcolor="{brand.background}" style="padding:24px 12px">{inner}</td>'
    page = _table(outer, 'width="100%"')
    return (
        '<!doctype html><html><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"></head>'
        f'<body style="margin:0;background-color:{brand.background}">{page}</body></html>'
    )


def _table(cell: str, attributes: str = "") -> str:
    spaced = f" {attributes}" if attributes else ""
    return f'<table role="presentation" border="0" cellpadding="0" cellspacing="0"{spaced}><tr>{cell}</tr></table>'


def _header(brand: Brand, text: str) -> str:
    style = f"margin:0 0 24px;color:{text};font-size:18px;line-height:24px;font-weight:bold"
    shown = escape(brand.name)
    if brand.logo_url is not None:
        shown = (
            f'<img src="{escape(brand.logo_url)}" alt="{shown}" width="{brand.logo_width}" '
            'style="display:block;max-width:100%;height:auto;border:0">'
        )
    if not shown:
        return ""
    if brand.website is not None:
        shown = f'<a href="{escape(brand.website)}" style="color:{text};text-decoration:none">{shown}</a>'
    return f'<p style="{style};font-family:{brand.heading_font_stack}">{shown}</p>'


def _address(brand: Brand, style: str) -> str:
    if not brand.postal_address:
        return ""
    lines = "<br>".join(escape(line) for line in brand.postal_address.splitlines())
    return f'<p style="{style}">{lines}</p>'
