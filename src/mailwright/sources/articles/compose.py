"""Compose a template from an assembled article. Its recipients share the template; only the variables differ."""

from collections.abc import Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateStore, latest_by_locale
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.sources.articles.assembly import Article
from mailwright.sources.articles.placeholders import STANDARD_NAMES, Placeholder, as_template, placeholders
from mailwright.storage.database import Database

# The name is a digest of the content. The colon cannot occur in the names that users choose.
_NAME: Final = "article:{digest}"

_LINK: Final = '<p><a href="{url}">{label}</a></p>'
_FOOTER: Final = "---\n\n{{ postal_address }}\n\n[Unsubscribe]({{ unsubscribe_url }})\n"


@dataclass(frozen=True, slots=True)
class ArticleVariant:
    """A stored article: its template, and the placeholders to fill in for each recipient."""

    template_key: int
    subject: str
    placeholders: tuple[tuple[str, Placeholder], ...]  # pairs of template variable and placeholder

    def values(self, name: str | None, attributes: Mapping[str, Any]) -> dict[str, str]:
        return {variable: each.fill(name, attributes) for variable, each in self.placeholders}


@dataclass(frozen=True, slots=True)
class ComposedArticle:
    subject: str
    html: str
    placeholders: tuple[Placeholder, ...]

    @property
    def digest(self) -> str:
        return sha256(f"{self.subject}\0{self.html}".encode()).hexdigest()


async def compose(store: TemplateStore, tenant_id: int, article: Article) -> ComposedArticle:
    """Compose the template. Raises `TemplateFailed` if no message could be built from it."""
    source = markdown(article)
    subject = as_template(article.title)
    html = await store.compiled(tenant_id, as_template(source), TemplateFormat.MARKDOWN, title=subject)
    found = placeholders(f"{article.title}\n{source}")
    own = sorted((each for each in found if each.name not in STANDARD_NAMES), key=lambda each: each.variable)
    return ComposedArticle(subject, html, tuple(own))


async def store_variant(
    database: Database, store: TemplateStore, tenant_id: int, composed: ComposedArticle
) -> ArticleVariant:
    """Store the template under a digest of its content, so that the same content is stored once for all runs."""
    name = _NAME.format(digest=composed.digest)
    async with database.read() as tx:
        known = (await latest_by_locale(tx, tenant_id, name)).get(DEFAULT_LOCALE)
    if known is None:
        known = await store.put(tenant_id, name, subject=composed.subject, html=composed.html, text=None)
    return ArticleVariant(known.key, composed.subject, tuple((each.variable, each) for each in composed.placeholders))


def markdown(article: Article) -> str:
    """Return the whole email as Markdown: headline, body, links and the unsubscribe footer."""
    parts = [f"<h1>{escape(article.title)}</h1>"]
    if article.dek:
        parts.append(f"<p><strong>{escape(article.dek)}</strong></p>")
    if article.body_md:
        parts.append(article.body_md)
    parts += [_LINK.format(url=escape(link.url), label=escape(link.label)) for link in article.links]
    return "\n\n".join([*parts, _FOOTER])
