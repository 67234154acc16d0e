"""Cards and captions, which several types of blocks share."""

from html import escape
from urllib.parse import urlsplit

from mailwright.sources.mailouts.rendering.rich_text import RichText, linked, shown
from mailwright.sources.mailouts.rendering.styles import LINE, MUTED


def card(sign: str, title: str, url: str | None, beside: str) -> str:
    """Return a box with a linked title, and the host of the link below it."""
    host = urlsplit(url).hostname if url else None
    below = " · ".join(escape(part) for part in (beside, host or "") if part and part != title)
    small = f'<div class="mw-muted" style="color:{MUTED};font-size:13px;line-height:1.4">{below}</div>' if below else ""
    named = linked(shown(title), url, "text-decoration:none;font-weight:600") if url else shown(title)
    table = '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" class="mw-line" style="'
    return (
        f'{table}margin:0 0 16px;border:1px solid {LINE};border-radius:6px;border-collapse:separate"><tr>'
        f'<td width="28" valign="top" style="padding:12px 0 12px 14px;width:28px">{sign}</td>'
        f'<td valign="top" style="padding:12px 14px 12px 6px">{named}{small}</td></tr></table>'
    )


def captioned(caption: RichText) -> str:
    if not caption.html:
        return ""
    return (
        f'<p class="mw-muted" style="margin:0 0 16px;color:{MUTED};font-size:14px;line-height:1.4">{caption.html}</p>'
    )
