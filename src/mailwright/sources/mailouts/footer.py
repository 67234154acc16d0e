"""The footer of every mailout, in HTML and text: sender, postal address and unsubscribe link."""

from html import escape

from mailwright.content.unsubscribe_footer import UNSUBSCRIBE
from mailwright.sources.mailouts.literals import literal_html, literal_text
from mailwright.sources.mailouts.refusals import no_footer
from mailwright.sources.mailouts.rendering.styles import MUTED
from mailwright.sources.mailouts.setup import FooterDetails

_LINK = f"{{{{ {UNSUBSCRIBE} }}}}"


def footers(footer: FooterDetails) -> tuple[str, str]:
    """Return the HTML and text footers as templates: the pipeline fills in the link. Raises if a setting is missing."""
    if footer.missing:
        raise no_footer(footer.missing)
    who = f"{footer.org_name} — {footer.org_address}"
    style = f'class="mw-muted" style="margin:0 0 8px;color:{MUTED};font-size:13px;line-height:1.5"'
    link = f'<a class="mw-muted" href="{_LINK}" style="color:{MUTED}">Unsubscribe</a>'
    html = f"{literal_html(footer.html)}<hr>\n<p {style}>{literal_html(escape(who))}</p>\n<p {style}>{link}</p>"
    return html, f"{literal_text(footer.text)}\n--\n{literal_text(who)}\nUnsubscribe: {_LINK}"
