"""The file of a sequence: its document, and its templates under `templates` if they are part of it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import StoredTemplate
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import gettext
from mailwright.schemas.templates import check_template_id, parse_template, variable_response
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.sequences.bundles import BundledTemplate

MAX_FILE_BYTES: Final = 3 * 1024 * 1024
_TEMPLATES: Final = "templates"
_MAX_TEMPLATES: Final = 200


def sequence_file(document: Mapping[str, Any], templates: Iterable[StoredTemplate]) -> dict[str, Any]:
    """Return a document with its templates, which are written as `PUT /v1/templates/{templateId}` takes them."""
    return {**document, _TEMPLATES: [_written(each) for each in templates]}


def read_sequence_file(content: Any) -> tuple[Any, list[BundledTemplate]]:
    """Return the document and the templates of a file. The document itself is not validated yet."""
    if not isinstance(content, dict) or _TEMPLATES not in content:
        return content, []
    given = content[_TEMPLATES]
    if not isinstance(given, list) or len(given) > _MAX_TEMPLATES:
        raise InvalidInput(gettext("Write at most {most} templates, as a list.", most=_MAX_TEMPLATES), field=_TEMPLATES)
    document = {name: value for name, value in content.items() if name != _TEMPLATES}
    return document, [_read(each, f"{_TEMPLATES}[{number}]") for number, each in enumerate(given)]


def _written(stored: StoredTemplate) -> dict[str, Any]:
    body = orjson.loads(stored.body) if stored.format is TemplateFormat.BLOCKS else stored.body
    optional = {
        "text": stored.text,
        "locale": stored.locale,
        "variables": [variable_response(each).to_dict() for each in stored.variables],
    }
    written = {"templateId": stored.template_id, "subject": stored.subject, stored.format.value: body}
    return written | {name: value for name, value in optional.items() if value}


def _read(content: Any, place: str) -> BundledTemplate:
    fields = dict(content) if isinstance(content, dict) else {}
    template_id = str(fields.pop("templateId", ""))
    try:
        check_template_id(template_id)
        return BundledTemplate(template_id, parse_template(fields).draft())
    except RequestInvalid as error:
        placed = [FieldError(f"{place}.{each.field}", each.code, each.message) for each in error.errors]
        raise RequestInvalid(placed) from error
