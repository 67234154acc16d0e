"""Compare a file with the installation, and change the installation. The actions read and write everything."""

import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from pydantic import BaseModel

from mailwright.actions import (
    brands,
    domains,
    forms,
    lists,
    segments,
    sequences,
    settings,
    templates,
    tenants,
    webhooks,
)
from mailwright.actions.declaration import DeclaredAction, Noun, camel_case
from mailwright.cli.yaml_file import YamlFile
from mailwright.content.formats import TemplateFormat
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import WEBHOOK_EVENT_TYPES
from mailwright.events.outbound.formats import FORMATS
from mailwright.events.outbound.formats.mailwright import MailwrightFormat
from mailwright.ops.stored import SECRETS, field_of
from mailwright.schemas.templates import TemplateRequest, check_template_id, require_one_body
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.sources.sequences.records import SequenceStatus
from mailwright.sources.sequences.versions import published_from

Fields = dict[str, Any]
# Runs an action with its path parameters and its input, and returns the JSON of its result.
Call = Callable[[DeclaredAction, Mapping[str, str], Fields], Awaitable[Fields]]

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_EMPTY: Final[Sequence[Any]] = (None, "", [], {})
_HIDDEN: Final = "(secret)"


class FileEntry(NamedTuple):
    """An object of the installation: the fields that a file can have, and the path parameters of its actions."""

    fields: Fields
    path: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FileChange:
    """An object to create (`before` is None), to edit, or to delete (`fields` is None)."""

    section: "FileSection"
    key: str
    before: FileEntry | None
    fields: Fields | None

    @property
    def kind(self) -> str:
        return "create" if self.before is None else "delete" if self.fields is None else "edit"

    def to_dict(self) -> Fields:
        old = {} if self.before is None else self.before.fields
        rows = (
            {
                "field": name,
                "before": self.section.shown(self.key, old.get(name)),
                "after": self.section.shown(self.key, value),
            }
            for name, value in (self.fields or {}).items()
        )
        return {"section": self.section.name, "name": self.key, "change": self.kind, "fields": list(rows)}


class FileSection:
    """A part of the file. By default: a noun whose objects have a name and whose list shows all their fields."""

    # The actions are found by the HTTP method and the path. `has_nulls`: null is a value, and not a missing field.
    def __init__(self, name: str, noun: Noun, key: str, *, has_nulls: bool = False) -> None:
        self.name, self.noun, self.key, self.has_nulls = name, noun, key, has_nulls
        self.list = self._find("GET", noun.path)
        self.create = self._find("POST", noun.path)
        self.edit = next(filter(None, map(self._find_one, ("PATCH", "PUT"))), None)
        self.remove = self._find_one("DELETE")

    def _find(self, method: str, path: str) -> DeclaredAction | None:
        return next((each for each in self.noun.actions if (each.method, each.path) == (method, path)), None)

    def _find_one(self, method: str) -> DeclaredAction | None:
        """Return the action on one object."""
        pattern = re.compile(re.escape(self.noun.path) + r"/\{\w+\}")
        return next(
            (each for each in self.noun.actions if each.method == method and pattern.fullmatch(each.path)), None
        )

    @property
    def is_platform(self) -> bool:
        return self.noun.reads.is_platform

    def entries(self, content: Any) -> dict[str, Any]:
        """Return the fields of each object in this part of the file."""
        if not isinstance(content or {}, dict):
            raise InvalidInput("must have a name for each entry")
        return content or {}

    def content(self, found: Mapping[str, FileEntry]) -> Any:
        """Return this part of the file."""
        return {key: self._written(entry.fields) for key, entry in sorted(found.items())}

    def _written(self, fields: Fields) -> Fields:
        return {name: value for name, value in fields.items() if value is not None or self.has_nulls}

    async def read(self, call: Call) -> dict[str, FileEntry]:
        [rows] = [each for each in (await call(_known(self.list), {}, {})).values() if isinstance(each, list)]
        found: dict[str, FileEntry] = {}
        for row in rows:
            key = self._new_key(row[self.key], found)
            fields = {name: row[name] for name in _names(_known(self.create).input) - {self.key} if name in row}
            path = {name: str(row.get(camel_case(name), key)) for name in _known(self.remove).parameters}
            found[key] = FileEntry({name: fields[name] for name in row if name in fields}, path)
        return found

    def _new_key(self, key: Any, found: Mapping[str, FileEntry]) -> str:
        if str(key) in found:
            raise InvalidInput(f"{self.name}: two entries are named {key}. Rename one of them, or delete it.")
        return str(key)

    def validate(self, key: str, given: Fields, before: FileEntry | None) -> Fields:
        """Return the fields as they are stored, or raise an error that names them."""
        present = {} if before is None else self.merged(before.fields, given)
        wanted = parse(_model(self.create), {**present, **given, self.key: key})
        dumped = wanted.model_dump(mode="json", by_alias=True)
        return {name: dumped[name] for name in given if given[name] is not None or self.has_nulls}

    def merged(self, before: Fields, _given: Fields) -> Fields:
        """Return the present fields that a file with these fields keeps."""
        return before

    def shown(self, _key: str, value: Any) -> Any:
        return value

    def is_deletable(self, _key: str) -> bool:
        return True

    def batches(self, changes: Sequence[FileChange]) -> Iterator[list[FileChange]]:
        """Yield the changes that one request makes."""
        yield from ([each] for each in changes)

    async def write(self, call: Call, changes: Sequence[FileChange]) -> None:
        [change] = changes
        fields = change.fields or {}
        if change.before is None:
            await call(_known(self.create), {}, {self.key: change.key, **fields})
        elif change.fields is None:
            await call(_known(self.remove), change.before.path, {})
        else:
            edit = _known(self.edit)
            present = self.merged(change.before.fields, fields) if edit.method == "PUT" else {}
            values = {self.key: change.key, **present, **fields}
            names = _names(edit.input)
            await call(edit, change.before.path, {name: values[name] for name in values if name in names})


class SettingsSection(FileSection):
    """Stored settings. A secret is named by an environment variable, and kept if there already is one."""

    def entries(self, content: Any) -> dict[str, Any]:
        return {name: {"value": value} for name, value in super().entries(content).items()}

    def content(self, found: Mapping[str, FileEntry]) -> Any:
        return {key: entry.fields["value"] for key, entry in found.items() if not _is_secret(key)}

    async def read(self, call: Call) -> dict[str, FileEntry]:
        rows = (await call(_known(self.list), {}, {}))["settings"]
        return {
            row["name"]: FileEntry({"value": row["value"]}, {"setting_name": row["name"]})
            for row in rows
            if row["storedAt"] is not None
        }

    def validate(self, key: str, given: Fields, before: FileEntry | None) -> Fields:
        value = given["value"]
        text = str(value).lower() if isinstance(value, bool) else str(value)
        variable = _VARIABLE.fullmatch(text)
        if _is_secret(key):
            if variable is None:
                raise InvalidInput("is a secret: name an environment variable with its value, as in ${PASSWORD}")
            if before is not None:
                return {}
        if variable is not None and not (text := os.environ.get(variable[1], "")):
            raise InvalidInput(f"the environment variable {variable[1]} is not set")
        return {"value": text}

    def shown(self, key: str, value: Any) -> Any:
        return _HIDDEN if _is_secret(key) and value is not None else value

    def is_deletable(self, key: str) -> bool:
        return not _is_secret(key)  # An exported file does not name secrets.

    def batches(self, changes: Sequence[FileChange]) -> Iterator[list[FileChange]]:
        yield list(changes)  # Settings are verified together.

    async def write(self, call: Call, changes: Sequence[FileChange]) -> None:
        values = {each.key: None if each.fields is None else each.fields["value"] for each in changes}
        await call(self.noun.find(settings.change), {}, {"settings": values})


class BrandSection(FileSection):
    """The brand kit: one object, which always exists."""

    def entries(self, content: Any) -> dict[str, Any]:
        return {"": super().entries(content)}

    def content(self, found: Mapping[str, FileEntry]) -> Any:
        return self._written(found[""].fields)

    async def read(self, call: Call) -> dict[str, FileEntry]:
        return {"": FileEntry((await call(self.noun.find(brands.show_brand), {}, {}))["brand"], {})}

    def validate(self, _key: str, given: Fields, before: FileEntry | None) -> Fields:
        present = {} if before is None else before.fields
        values = {name: value for name, value in {**present, **given}.items() if value is not None}
        dumped = parse(_model(self.noun.find(brands.save_brand)), values).model_dump(mode="json", by_alias=True)
        return {name: dumped[name] for name in given}

    async def write(self, call: Call, changes: Sequence[FileChange]) -> None:
        [change] = changes
        await call(self.noun.find(brands.edit_brand), {}, change.fields or {})


class Templates(FileSection):
    """Templates with the last version of each locale. `receipt/pt` is the version of `receipt` for `pt`."""

    async def read(self, call: Call) -> dict[str, FileEntry]:
        found: dict[str, FileEntry] = {}
        after: str | None = ""
        while after is not None:
            page = await call(self.noun.find(templates.list_templates), {}, {"limit": 200, "after": after})
            for version in (each for summary in page["templates"] for each in summary["newest"]):
                path = {"template_id": version["templateId"]}
                shown = await call(self.noun.find(templates.show), path, {"version": version["version"]})
                found["/".join(filter(None, (shown["templateId"], shown["locale"])))] = FileEntry(
                    _template(shown), path
                )
            after = page["nextAfter"]
        return found

    def validate(self, key: str, given: Fields, before: FileEntry | None) -> Fields:
        template_id, _, locale = key.partition("/")
        check_template_id(template_id)
        if "locale" in given:
            raise InvalidInput("belongs to the name: receipt/pt is the version of receipt for pt", field="locale")
        present = {} if before is None else self.merged(before.fields, given)
        wanted = parse(TemplateRequest, {**present, **given, "locale": locale or None})
        dumped = require_one_body(wanted).model_dump(mode="json", by_alias=True)
        return {name: dumped[name] for name in given if given[name] is not None}

    def is_deletable(self, key: str) -> bool:
        return "/" not in key  # A template is deleted with all its locales.

    def merged(self, before: Fields, given: Fields) -> Fields:
        """Return the present fields. A new source replaces the present one, also one in another format."""
        formats = {each.value for each in TemplateFormat}
        is_new = bool(formats & given.keys())
        return {name: value for name, value in before.items() if not (is_new and name in formats)}

    async def write(self, call: Call, changes: Sequence[FileChange]) -> None:
        [change] = changes
        template_id, _, locale = change.key.partition("/")
        path = {"template_id": template_id}
        if change.fields is None:
            await call(self.noun.find(templates.delete), path, {})
            return
        present = {} if change.before is None else self.merged(change.before.fields, change.fields)
        await call(self.noun.find(templates.write), path, {**present, **change.fields, "locale": locale or None})


class SequencesSection(FileSection):
    """Drafts of sequences. A file publishes nothing, because people decide who enters a sequence, and when."""

    async def read(self, call: Call) -> dict[str, FileEntry]:
        found: dict[str, FileEntry] = {}
        for row in (await call(_known(self.list), {}, {}))["sequences"]:
            if row["status"] == SequenceStatus.ARCHIVED:
                continue
            shown = await call(self.noun.find(sequences.show), {"sequence_id": row["sequenceId"]}, {})
            fields = {name: value for name, value in shown["document"].items() if name != "name"}
            # The file replaces exactly this revision, and no later one.
            path = {"sequence_id": row["sequenceId"], "revision": str(shown["revision"])}
            found[self._new_key(row["name"], found)] = FileEntry(fields, path)
        return found

    def validate(self, key: str, given: Fields, before: FileEntry | None) -> Fields:
        published_from(_document(key, before, given))
        return given

    async def write(self, call: Call, changes: Sequence[FileChange]) -> None:
        [change] = changes
        document = _document(change.key, change.before, change.fields or {})
        if change.before is None:
            await call(_known(self.create), {}, {"document": document})
        elif change.fields is None:
            await call(_known(self.remove), change.before.path, {})
        else:
            revision = int(change.before.path["revision"])
            await call(_known(self.edit), change.before.path, {"document": document, "revision": revision})


class Webhooks(FileSection):
    """Webhooks by URL. Their secrets are neither exported nor changed."""

    def validate(self, key: str, given: Fields, before: FileEntry | None) -> Fields:
        fields = super().validate(key, given, before)
        if before is not None and fields.get("format") not in (None, before.fields["format"]):
            raise InvalidInput("cannot be changed. Delete the webhook and add it again.", field="format")
        if "types" in fields:  # None means all, and they are stored in this order.
            shape = FORMATS.get(fields.get("format") or MailwrightFormat.name)
            known = [str(each) for each in (shape.types if shape else WEBHOOK_EVENT_TYPES)]
            unknown = [each for each in fields["types"] if each not in known]
            fields["types"] = [each for each in known if each in fields["types"]] + unknown or known
        return fields


class Domains(FileSection):
    """Sender domains. Their DKIM keys are neither exported nor changed."""

    def validate(self, key: str, given: Fields, before: FileEntry | None) -> Fields:
        fields = super().validate(key, given, before)
        if before is not None and any(fields[name] != before.fields[name] for name in fields):
            raise InvalidInput("cannot be changed. Delete the domain and add it again.", field="sender")
        return fields


# In the order in which they are written, so that each object exists before another one names it.
SECTIONS: Final[Sequence[FileSection]] = (
    SettingsSection("settings", settings.noun, "name"),
    FileSection("tenants", tenants.noun, "name", has_nulls=True),
    BrandSection("brand", brands.noun, ""),
    FileSection("lists", lists.noun, "listKey"),
    FileSection("segments", segments.noun, "segmentKey"),
    Templates("templates", templates.noun, ""),
    FileSection("forms", forms.noun, "name"),
    SequencesSection("sequences", sequences.noun, "name"),
    Webhooks("webhooks", webhooks.noun, "url"),
    Domains("domains", domains.noun, "name"),
)


async def export(call: Call, *, platform: bool) -> Fields:
    """Return the content of a file that describes a tenant, or the installation."""
    return {each.name: each.content(await each.read(call)) for each in SECTIONS if each.is_platform is platform}


async def plan(call: Call, file: YamlFile, *, prunes: bool) -> list[FileChange]:
    """Return what the file changes, in the order in which to do it. All problems of the file are reported together."""
    known = {each.name for each in SECTIONS}
    problems = [
        FieldError(_place(file, (name,)), "UNKNOWN_FIELD", f"is not a section; known ones: {', '.join(sorted(known))}")
        for name in file.content
        if name not in known
    ]
    changes: list[FileChange] = []
    deletions: list[FileChange] = []
    for section in SECTIONS:
        if section.name not in file.content:
            continue
        present = await section.read(call)
        try:
            entries = section.entries(file.content[section.name])
        except InvalidInput as error:
            problems += _problems(file, (section.name,), error)
            continue
        for key, given in entries.items():
            try:
                change = _compare(section, key, {} if given is None else given, present.get(key))
            except MailwrightError as error:
                problems += _problems(file, (section.name, *filter(None, [key])), error)
            else:
                changes += [change] if change is not None else []
        if prunes:
            gone = [key for key in present if key not in entries and section.is_deletable(key)]
            deletions = [FileChange(section, key, present[key], None) for key in gone] + deletions
    if problems:
        raise RequestInvalid(problems)
    return changes + deletions


def digest_of(changes: Sequence[FileChange]) -> str:
    """Return a digest of the plan. It changes if the file changes, or what the file would replace."""
    content = orjson.dumps([each.to_dict() for each in changes], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:32]


def batches(changes: Sequence[FileChange]) -> list[list[FileChange]]:
    """Return the changes that each request makes."""
    found: list[list[FileChange]] = []
    for change in changes:
        if found and found[-1][0].section is change.section:
            found[-1].append(change)
        else:
            found.append([change])
    return [batch for group in found for batch in group[0].section.batches(group)]


async def without_effect(call: Call, changes: Sequence[FileChange]) -> list[FileChange]:
    """Return the changes that changed nothing, because the file spells a value in another way than the database."""
    after = {each.name: await each.read(call) for each in SECTIONS if any(one.section is each for one in changes)}
    return [
        each
        for each in changes
        if each.kind == "edit" and each.before is not None and after[each.section.name].get(each.key) == each.before
    ]


def _compare(section: FileSection, key: str, given: Any, before: FileEntry | None) -> FileChange | None:
    if not isinstance(given, dict):
        raise InvalidInput("must have fields, for example `name: News`")
    wanted = section.validate(key, given, before)
    old = {} if before is None else before.fields
    changed = {
        name: value
        for name, value in wanted.items()
        if before is None or not (value == old.get(name) or (value in _EMPTY and old.get(name) in _EMPTY))
    }
    return FileChange(section, key, before, changed) if changed or before is None else None


def _problems(file: YamlFile, place: tuple[str, ...], error: Exception) -> list[FieldError]:
    found = getattr(error, "errors", None) or [FieldError(getattr(error, "field", None) or "", "INVALID", str(error))]
    return [
        FieldError(_place(file, (*place, *filter(None, re.split(r"[.\[\]]+", each.field)))), each.code, each.message)
        for each in found
    ]


def _place(file: YamlFile, place: tuple[str, ...]) -> str:
    return f"line {file.line_of(place)}: {'.'.join(place)}"


def _template(shown: Fields) -> Fields:
    body = orjson.loads(shown["body"]) if shown["format"] == TemplateFormat.BLOCKS else shown["body"]
    fields = {"subject": shown["subject"], shown["format"]: body, "text": shown["text"]}
    # The variables that a template uses are known without a declaration.
    if any(not each["required"] or each["sample"] is not None for each in shown["variables"]):
        fields["variables"] = shown["variables"]
    return {name: value for name, value in fields.items() if value is not None}


def _document(name: str, before: FileEntry | None, fields: Fields) -> Fields:
    """Return the document of a sequence: its present fields, and those of the file."""
    return {"name": name, **({} if before is None else before.fields), **fields}


def _is_secret(name: str) -> bool:
    return field_of(name) in SECRETS


def _known(action: DeclaredAction | None) -> DeclaredAction:
    if action is None:
        raise InvalidInput("cannot be changed with a file.")
    return action


def _model(action: DeclaredAction | None) -> type[BaseModel]:
    model = _known(action).input
    if model is None:
        raise TypeError("The action has no input.")
    return model


def _names(model: type[BaseModel] | None) -> set[str]:
    return set() if model is None else {field.alias or name for name, field in model.model_fields.items()}
