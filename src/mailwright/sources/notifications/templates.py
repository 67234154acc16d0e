"""Templates of notifications, by event kind, version and language of the recipient."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import StoredTemplate, TemplateDraft, TemplateStore, latest_by_locale
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain import locales
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.sources.notifications.event_kinds import LINKS, OPEN_SEAT, EventKind, EventKinds
from mailwright.sources.notifications.jobs import RowError
from mailwright.storage.database import Database

# A new template version is used after this delay at the latest.
REFRESH_EVERY: Instant = 10 * SECOND
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL | re.IGNORECASE)


class NotificationTemplates:
    """The stored templates of all event kinds, cached."""

    def __init__(
        self, database: Database, clock: Clock, store: TemplateStore, tenant_id: int, kinds: EventKinds
    ) -> None:
        self._database = database
        self._clock = clock
        self._store = store
        self._tenant_id = tenant_id
        self._kinds = kinds
        self._texts: dict[str, Mapping[str, StoredTemplate]] = {}
        self._required: dict[int, frozenset[str]] = {}  # required variables by template version
        self._uses: dict[int, frozenset[str]] = {}
        self._refreshed_at: Instant | None = None

    async def refresh(self) -> None:
        now = self._clock.now()
        if self._refreshed_at is not None and 0 <= now - self._refreshed_at < REFRESH_EVERY:
            return
        async with self._database.read() as tx:
            for kind in self._kinds.by_name.values():
                self._texts[kind.template_id] = await latest_by_locale(tx, self._tenant_id, kind.template_id)
        self._refreshed_at = now

    async def publish(self) -> None:
        """Store templates from folders if they changed, and the built-in templates if none are stored."""
        problems: list[str] = []
        for kind in self._kinds.by_name.values():
            async with self._database.read() as tx:
                stored = await latest_by_locale(tx, self._tenant_id, kind.template_id)
            folder = _template_folder(kind, is_stored=bool(stored))
            if folder is not None:
                problems += [each async for each in self._publish(kind, folder, stored)]
        if problems:
            raise ConfigurationInvalid(*problems)

    def pick(self, job: Mapping[str, Any], kind: EventKind) -> StoredTemplate | RowError:
        """Choose the template in the recipient's language or the fallback; it must contain both links."""
        texts = self._texts.get(kind.template_id)
        if not texts:
            message = f"/template/id: template {kind.template_id} is not stored"
            return RowError("TEMPLATE_NOT_FOUND", message, "/template/id")
        wanted = [name for name in locales.fallback_locales(job["locale"]) if name != DEFAULT_LOCALE]
        fallbacks = [kind.fallback_locale, DEFAULT_LOCALE] if kind.fallback_locale else []
        template = next((texts[name] for name in (*wanted, *fallbacks) if name in texts), None)
        if template is None:
            message = f"/locale: template {kind.template_id} has no text for {job['locale']} and no fallback"
            return RowError("MISSING_LOCALE", message, "/locale")
        return self._check(template, job["template"]["variables"]) or template

    def _check(self, stored: StoredTemplate, given: Mapping[str, Any]) -> RowError | None:
        if stored.key not in self._required:
            expected = stored.expected_variables()
            self._required[stored.key] = frozenset(each.name for each in expected if each.is_required)
            self._uses[stored.key] = frozenset(each.name for each in expected)
        if unused := sorted(set(LINKS) - self._uses[stored.key]):
            message = f"/template/id: template {stored.template_id} lacks the links {', '.join(unused)}"
            return RowError("TEMPLATE_WITHOUT_LINKS", message, "/template/id")
        if missing := sorted(self._required[stored.key] - given.keys() - STANDARD_VARIABLES.keys()):
            path = f"/template/variables/{missing[0]}"
            return RowError(
                "MISSING_VARIABLE", f"{path}: required by the template, but the event provides no value", path
            )
        return None

    async def _publish(self, kind: EventKind, folder: Traversable, stored: Mapping[str, StoredTemplate]) -> Any:
        texts = dict(_read_texts(folder))
        if not texts:
            yield f"{kind.name}: {folder} contains no template such as en.html"
            return
        everyone = kind.fallback_locale or next(iter(texts))
        if everyone not in texts:
            yield f"{kind.name}: {folder} has no {everyone}.html, the fallback for other languages"
            return
        names = {DEFAULT_LOCALE: everyone, **{each: each for each in texts if each != kind.fallback_locale}}
        for locale, name in names.items():
            known = stored.get(locale)
            if known is not None and (known.body, known.text) == texts[name]:
                continue
            try:
                await self._store.write(self._tenant_id, kind.template_id, _draft(*texts[name], locale))
            except (InvalidInput, InvalidTemplate) as error:
                yield f"{kind.name}: {folder}/{name}.html: {error}"


def _template_folder(kind: EventKind, *, is_stored: bool) -> Traversable | None:
    if kind.templates is not None:
        return kind.templates / kind.template / kind.template_version
    if kind.name == OPEN_SEAT and kind.template == OPEN_SEAT and not is_stored:
        return resources.files(__package__) / "open_seat" / kind.template / kind.template_version
    return None


def _read_texts(folder: Traversable) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield HTML and plain text by locale; without plain text, it is derived from the HTML."""
    files = {file.name: file for file in _files(folder)}
    for name, file in files.items():
        locale = locales.normal(name.removesuffix(".html")) if name.endswith(".html") else None
        if locale is not None:
            plain = files.get(f"{name.removesuffix('.html')}.txt")
            yield locale, (file.read_text(encoding="utf-8"), plain.read_text(encoding="utf-8") if plain else None)


def _files(folder: Traversable) -> Iterable[Traversable]:
    return sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ()


def _draft(html: str, text: str | None, locale: str) -> TemplateDraft:
    """Build a draft; the HTML title becomes the subject."""
    title = _TITLE.search(html)
    if title is None:
        raise InvalidInput("must have a <title>, which becomes the subject")
    return TemplateDraft(
        subject=" ".join(title[1].split()), body=html, format=TemplateFormat.HTML, text=text, locale=locale
    )
