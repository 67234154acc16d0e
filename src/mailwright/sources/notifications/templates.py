"""Letters: the template that a notification is made from, by its kind, its version and the reader's language."""

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

# An author's new version is used by the rows that come so much later.
REFRESH_EVERY: Instant = 10 * SECOND
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL | re.IGNORECASE)


class NotificationTemplates:
    """What is stored for the kinds of a queue, kept at hand."""

    def __init__(
        self, database: Database, clock: Clock, store: TemplateStore, tenant_id: int, kinds: EventKinds
    ) -> None:
        self._database = database
        self._clock = clock
        self._store = store
        self._tenant_id = tenant_id
        self._kinds = kinds
        self._texts: dict[str, Mapping[str, StoredTemplate]] = {}
        self._needs: dict[int, frozenset[str]] = {}  # by version: the variables that it cannot do without
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
        """Stores the templates of folders where they say something new; the built-in ones where there are none."""
        problems: list[str] = []
        for kind in self._kinds.by_name.values():
            async with self._database.read() as tx:
                stored = await latest_by_locale(tx, self._tenant_id, kind.template_id)
            folder = _folder(kind, is_stored=bool(stored))
            if folder is not None:
                problems += [each async for each in self._publish(kind, folder, stored)]
        if problems:
            raise ConfigurationInvalid(*problems)

    def pick(self, job: Mapping[str, Any], kind: EventKind) -> StoredTemplate | RowError:
        """In the reader's own language, else in the kind's; a mail without its ways out is refused."""
        texts = self._texts.get(kind.template_id)
        if not texts:
            message = f"/template/id: no template {kind.template_id} is stored"
            return RowError("TEMPLATE_NOT_FOUND", message, "/template/id")
        wanted = [name for name in locales.fallback_locales(job["locale"]) if name != DEFAULT_LOCALE]
        stands_in = [kind.fallback_locale, DEFAULT_LOCALE] if kind.fallback_locale else []
        found = next((texts[name] for name in (*wanted, *stands_in) if name in texts), None)
        if found is None:
            message = f"/locale: {kind.template_id} has no text for {job['locale']}, and nothing stands in"
            return RowError("MISSING_LOCALE", message, "/locale")
        return self._lacking(found, job["template"]["variables"]) or found

    def _lacking(self, stored: StoredTemplate, given: Mapping[str, Any]) -> RowError | None:
        if stored.key not in self._needs:
            expected = stored.expected_variables()
            self._needs[stored.key] = frozenset(each.name for each in expected if each.is_required)
            self._uses[stored.key] = frozenset(each.name for each in expected)
        if lost := sorted(set(LINKS) - self._uses[stored.key]):
            message = f"/template/id: {stored.template_id} has no {', '.join(lost)}: nobody could leave"
            return RowError("TEMPLATE_WITHOUT_LINKS", message, "/template/id")
        if lacking := sorted(self._needs[stored.key] - given.keys() - STANDARD_VARIABLES.keys()):
            path = f"/template/variables/{lacking[0]}"
            return RowError("MISSING_VARIABLE", f"{path}: the template needs it, and the event gives no value", path)
        return None

    async def _publish(self, kind: EventKind, folder: Traversable, stored: Mapping[str, StoredTemplate]) -> Any:
        texts = dict(_texts(folder))
        if not texts:
            yield f"{kind.name}: {folder} holds no template, as en.html"
            return
        everyone = kind.fallback_locale or next(iter(texts))
        if everyone not in texts:
            yield f"{kind.name}: {folder} has no {everyone}.html, which is to stand in for other languages"
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


def _folder(kind: EventKind, *, is_stored: bool) -> Traversable | None:
    if kind.templates is not None:
        return kind.templates / kind.template / kind.template_version
    if kind.name == OPEN_SEAT and kind.template == OPEN_SEAT and not is_stored:
        return resources.files(__package__) / "open_seat" / kind.template / kind.template_version
    return None


def _texts(folder: Traversable) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """HTML by locale, each with the plain text beside it; without one, the text of every mail is made from its HTML."""
    files = {file.name: file for file in _files(folder)}
    for name, file in files.items():
        locale = locales.normal(name.removesuffix(".html")) if name.endswith(".html") else None
        if locale is not None:
            plain = files.get(f"{name.removesuffix('.html')}.txt")
            yield locale, (file.read_text(encoding="utf-8"), plain.read_text(encoding="utf-8") if plain else None)


def _files(folder: Traversable) -> Iterable[Traversable]:
    return sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ()


def _draft(html: str, text: str | None, locale: str) -> TemplateDraft:
    """The page's title is the mail's subject."""
    title = _TITLE.search(html)
    if title is None:
        raise InvalidInput("needs a <title>: it is the subject of the mail")
    return TemplateDraft(
        subject=" ".join(title[1].split()), body=html, format=TemplateFormat.HTML, text=text, locale=locale
    )
