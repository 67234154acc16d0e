"""Sign-up forms: fields, consents and the HTML to embed."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import Field, StringConstraints, model_validator

from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Line, Noun, Option, Table, time_of
from mailwright.audience.contact_fields import MAX_ATTRIBUTE_NAME_LENGTH, check_attribute_name
from mailwright.audience.form_snippet import form_snippet, form_url
from mailwright.audience.forms import FormCounts, Forms, SignUpForm
from mailwright.domain.errors import InvalidInput
from mailwright.domain.sign_up_forms import ConsentBox, FieldType, FormContent, FormField
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import ListKey, RequestModel, RequiredName

noun = Noun(
    "form",
    "Sign-up forms: fields, consents and the HTML to embed.",
    "/v1/forms",
    parameters={"form_id": ("ID", "The id of the form.")},
    guard=Context.require_default_sender,  # Forms send their confirmation emails from it.
)

MAX_FIELDS = 20
MAX_CONSENTS = 10
MAX_CHOICES = 50
MAX_WORDING = 1_000

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1_000)]


class FormFieldRequest(RequestModel):
    """A field. Its value becomes the attribute of the contact. A `choice` needs its choices."""

    attribute: Annotated[str, Field(min_length=1, max_length=MAX_ATTRIBUTE_NAME_LENGTH, description="favourite_colour")]
    label: Label
    type: FieldType = FieldType.TEXT
    is_required: bool = False
    choices: Annotated[list[Label], Field(default_factory=list, max_length=MAX_CHOICES)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            check_attribute_name(self.attribute)
        except InvalidInput as error:
            raise ValueError(lazy_gettext("attribute: {error}", error=error)) from error
        if (self.type is FieldType.CHOICE) is not bool(self.choices):
            raise ValueError(lazy_gettext("a field of the type choice needs choices, and other fields have none"))
        return self


class FormConsentRequest(RequestModel):
    """A box with the exact text that people agree to. It is stored with their answer."""

    key: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="terms")]
    wording: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_WORDING)]
    is_required: bool = False


class FormRequest(RequestModel):
    """A sign-up form of a list. Empty texts are replaced by the texts of the list, in the visitor's language."""

    name: Annotated[RequiredName, Option(), Field(description="The name of the form, for you.")]
    list_key: Annotated[ListKey, Option("--list"), Field(description="The list that people subscribe to.")]
    title: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = ""
    text: Text = ""
    button: Annotated[str, StringConstraints(strip_whitespace=True, max_length=60)] = ""
    fields: Annotated[list[FormFieldRequest], Field(default_factory=list, max_length=MAX_FIELDS)]
    consents: Annotated[list[FormConsentRequest], Field(default_factory=list, max_length=MAX_CONSENTS)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for names, what in (
            ([each.attribute for each in self.fields], "attribute"),
            ([each.key for each in self.consents], "consent key"),
        ):
            if len(set(names)) != len(names):
                raise ValueError(lazy_gettext("each {what} can be used once in a form", what=what))
        return self

    def content(self) -> FormContent:
        return FormContent(
            self.title,
            self.text,
            self.button,
            tuple(
                FormField(each.attribute, each.label, each.type, each.is_required, tuple(each.choices))
                for each in self.fields
            ),
            tuple(ConsentBox(each.key, " ".join(each.wording.split()), each.is_required) for each in self.consents),
        )


class FormFieldResponse(ResponseModel):
    attribute: str
    label: str
    type: FieldType
    is_required: bool
    choices: list[str]


class FormConsentResponse(ResponseModel):
    key: str
    wording: str
    is_required: bool


class FormResponse(ResponseModel):
    """A sign-up form. `url` is its page, `snippet` the HTML to embed. A change of the content makes a new version."""

    form_id: str
    name: str
    list_key: str
    url: str
    snippet: str
    version: int
    title: str
    text: str
    button: str
    fields: list[FormFieldResponse]
    consents: list[FormConsentResponse]
    submitted: int
    confirmed: int
    created_at: Time
    updated_at: Time


class FormListResponse(ResponseModel):
    forms: list[FormResponse]


_FILE: Final = "The form as JSON, as `form show --json` prints it; - reads stdin."


def _shown(form: FormResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"{form.form_id}  {form.name} (list {form.list_key}, version {form.version})"
    yield form.url
    yield form.snippet


@noun.get(
    command="list",
    shown=Table(
        "forms",
        {
            "ID!": "form_id",
            "Name": "name",
            "List": "list_key",
            "Submitted#": lambda each: f"{each.submitted:,}",
            "Confirmed#": lambda each: f"{each.confirmed:,}",
            "Changed ({zone})": time_of("updated_at"),
        },
        nothing="No forms. Create one with `mailwright form create`.",
    ),
)
async def list_forms(at: Context) -> FormListResponse:
    """List the sign-up forms by name, with how many people submitted and confirmed them."""
    found = await _forms(at).list_all(at.tenant_id)
    return FormListResponse(forms=[_response(at, form, counts) for form, counts in found])


@noun.post(
    scope=MANAGE,
    audit="form.create",
    command="create",
    help="Create a sign-up form of a list. Its fields and consents come from a file.",
    file=_FILE,
    shown=_shown,
)
async def create(at: Context, wanted: FormRequest) -> FormResponse:
    """Create a sign-up form of a list. Everyone who uses it confirms by email."""
    made = await _forms(at).create(
        at.tenant_id, name=wanted.name, list_key=wanted.list_key, content=wanted.content(), actor=at.actor
    )
    return _response(at, made, FormCounts())


@noun.get("/{formId}", command="show", shown=_shown)
async def show(at: Context, form_id: str) -> FormResponse:
    """Show a form with the HTML that embeds it."""
    found = await _forms(at).find(at.tenant_id, form_id)
    return _response(at, found, await _forms(at).count(found))


@noun.put(
    "/{formId}",
    scope=MANAGE,
    audit="form.edit",
    command="edit",
    help="Change a form. A file replaces its content. What is not given stays as it is.",
    file=_FILE,
    shown=_shown,
)
async def edit(at: Context, form_id: str, wanted: FormRequest) -> FormResponse:
    """Replace a form. A change of its content makes a new version; stored consents keep the wording that people saw."""
    changed = await _forms(at).edit(
        at.tenant_id, form_id, name=wanted.name, list_key=wanted.list_key, content=wanted.content(), actor=at.actor
    )
    return _response(at, changed, await _forms(at).count(changed))


@noun.delete(
    "/{formId}",
    scope=MANAGE,
    audit="form.delete",
    command="delete",
    question="Delete the form {form_id}?",
    shown="Deleted the form {form_id}.",
)
async def delete(at: Context, form_id: str) -> None:
    """Delete a form. Embedded copies stop working. Stored consents are kept."""
    await _forms(at).delete(at.tenant_id, form_id, actor=at.actor)


def _forms(at: Context) -> Forms:
    return Forms(at.database, at.clock)


def _response(at: Context, form: SignUpForm, counts: FormCounts) -> FormResponse:
    url = at.settings.public_url
    return combine(FormResponse, form, form.content, counts, url=form_url(url, form), snippet=form_snippet(url, form))
