"""Compile a block document to MJML and HTML, once per version. Variables pass through as template code."""

from collections.abc import Mapping
from typing import NamedTuple

from mailwright.content import text as plain_text
from mailwright.content.authoring import compile_to_html
from mailwright.content.blocks import inline as inline_html
from mailwright.content.blocks.block_rows import REPEATED_IMAGE
from mailwright.content.blocks.document import BlockDocument, DocumentSettings, parse_document
from mailwright.content.blocks.mjml import CompileWarning, MjmlWriter
from mailwright.content.blocks.slots import fill_slots
from mailwright.content.blocks.theme import DARK_CONTENT, DARK_LINE, DARK_MUTED, DARK_PAGE, DARK_SOFT, DARK_TEXT, Theme
from mailwright.content.brand import DEFAULT_BRAND, Brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.preheader import insert_preheader
from mailwright.content.social_icons import has_icons
from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CompiledDocument:
    mjml: str
    html: str
    text: str
    warnings: tuple[CompileWarning, ...]


def compile_template(
    source: str,
    format: TemplateFormat,  # noqa: A002 - the usual word
    *,
    title: str = "",
    locale: str = "",
    images: Mapping[str, str] | None = None,
    brand: Brand = DEFAULT_BRAND,
) -> str:
    """Return the HTML of a template in any format. Only blocks use the brand kit."""
    if format is TemplateFormat.BLOCKS:
        return compile_document(parse_document(source), brand, title=title, locale=locale, images=images).html
    return compile_to_html(source, format, title=title, locale=locale, images=images)


def compile_document(
    document: BlockDocument,
    brand: Brand = DEFAULT_BRAND,
    *,
    title: str = "",
    locale: str = "",
    images: Mapping[str, str] | None = None,
) -> CompiledDocument:
    """Compile a document. The text part is derived from the HTML and keeps its template code."""
    theme = Theme.of(document.settings or DocumentSettings(), brand, locale, has_icons=has_icons(images))
    writer = MjmlWriter(theme, locale)
    mjml = _mjml(document, writer)
    html = compile_to_html(mjml, TemplateFormat.MJML, title=title, locale=locale, images=images)
    html = html.replace(f' rel="{REPEATED_IMAGE}"', f' rel="{plain_text.REPEATED}" aria-hidden="true" tabindex="-1"')
    if document.preheader:
        html = insert_preheader(html, inline_html.plain(document.preheader))
    return CompiledDocument(mjml, html, plain_text.from_html(html), tuple(writer.warnings))


class WrittenDocument(NamedTuple):
    mjml: str
    warnings: list[CompileWarning]


def write_mjml(source: str, brand: Brand, locale: str) -> WrittenDocument:
    """Return the MJML of a document and the warnings for its author.

    The HTML is left out, because it takes more time.
    """
    document = parse_document(source)
    writer = MjmlWriter(Theme.of(document.settings or DocumentSettings(), brand, locale), locale)
    return WrittenDocument(_mjml(document, writer), writer.warnings)


def _mjml(document: BlockDocument, writer: MjmlWriter) -> str:
    if document.mjml is None:
        return _page(writer.theme, writer.body(document.blocks))
    return fill_slots(document.mjml, document.blocks, writer.warn)


def _page(theme: Theme, body: str) -> str:
    page, side = (' dir="rtl"', ' direction="rtl"') if theme.is_right_to_left else ("", "")
    return (
        f"<mjml{page}><mj-head><mj-raw>"
        '<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">'
        "</mj-raw><mj-attributes>"
        f'<mj-all font-family="{theme.font}" /><mj-text font-size="16px" line-height="1.6" padding="0" '
        f'align="{theme.start}" /><mj-section{side} /><mj-column{side} /><mj-group{side} />'
        '<mj-button font-size="16px" font-weight="600" border-radius="6px" inner-padding="14px 28px" '
        'line-height="1.25" padding="0" /><mj-image padding="0" /></mj-attributes>'
        f"<mj-style>{_styles(theme)}</mj-style></mj-head>"
        f'<mj-body width="{theme.width}px" background-color="{theme.page}" css-class="mw-page">{body}</mj-body></mjml>'
    )


def _styles(theme: Theme) -> str:
    side, columns = "padding-left:20px !important;padding-right:20px !important", "padding-left:8px !important"
    phone = (
        f".mw-row{{{side}}}.mw-columns>table>tbody>tr>td{{{columns};padding-right:8px !important}}"
        ".mw-hide-phone{display:none !important}"
    )
    desktop = ".mw-hide-desktop{display:none !important}"
    styles = (
        ":root{color-scheme:light dark;supported-color-schemes:light dark}.mw-content{overflow:hidden}"
        f"@media only screen and (max-width:479px){{{phone}}}@media only screen and (min-width:480px){{{desktop}}}"
    )
    return styles if theme.is_dark else styles + f"@media (prefers-color-scheme:dark){{{_dark(theme)}}}"


def _dark(theme: Theme) -> str:
    page, content = f"background:{DARK_PAGE} !important", f"background:{DARK_CONTENT} !important"
    text, muted = f"color:{DARK_TEXT} !important", f"color:{DARK_MUTED} !important"
    return (
        f"body,.mw-page{{{page}}}.mw-content,.mw-content>table{{{content}}}"
        f".mw-soft,.mw-soft>table,.mw-soft-button td,.mw-soft-button a{{background:{DARK_SOFT} !important}}"
        f".mw-text div,.mw-text a,.mw-text h1,.mw-text h2,.mw-text h3,.mw-soft-button a{{{text}}}"
        f".mw-text .mw-link{{color:{theme.dark_link} !important}}"
        f".mw-text .mw-muted,.mw-page-text div,.mw-page-text a,.mw-page-text .mw-link{{{muted}}}"
        f".mw-line p{{border-top-color:{DARK_LINE} !important}}"
    )
