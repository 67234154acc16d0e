"""Models of sign-up forms."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from mailwright.audience.contact_fields import MAX_ATTRIBUTE_NAME_LENGTH, check_attribute_name
from mailwright.audience.forms import FormCounts, SignUpForm
from mailwright.domain.errors import InvalidInput
from mailwright.domain.sign_up_forms import ConsentBox, FieldType, FormContent, FormField
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import ListKey, RequestModel, RequiredName

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

    name: RequiredName
    list_key: ListKey
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


def form_response(form: SignUpForm, url: str, snippet: str, counts: FormCounts | None = None) -> FormResponse:
    content, counted = form.content, counts or FormCounts()
    return FormResponse(
        form_id=form.form_id,
        name=form.name,
        list_key=form.list_key,
        url=url,
        snippet=snippet,
        version=form.version,
        title=content.title,
        text=content.text,
        button=content.button,
        fields=[FormFieldResponse.model_validate(each) for each in content.fields],
        consents=[FormConsentResponse.model_validate(each) for each in content.consents],
        submitted=counted.submitted,
        confirmed=counted.confirmed,
        created_at=form.created_at,
        updated_at=form.updated_at,
    )
