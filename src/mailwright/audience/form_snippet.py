"""The addresses of sign-up forms, and the HTML that embeds one in another site."""

from html import escape

from mailwright.audience.forms import SignUpForm
from mailwright.domain.sign_up_forms import FieldType, FormField, consent_input, field_input


def form_url(public_url: str, form: SignUpForm) -> str:
    return f"{public_url}/form/{form.form_id}"


def form_snippet(public_url: str, form: SignUpForm) -> str:
    """Return plain HTML that works without scripts. With the script, people do not see the second page."""
    content, url = form.content, form_url(public_url, form)
    lines = [
        f'<form method="post" action="{escape(url)}" data-mailwright>',
        '  <label>Email <input type="email" name="email" autocomplete="email" required></label>',
        *(f"  {_field(each)}" for each in content.fields),
    ]
    for each in content.consents:
        box = f'<input type="checkbox" name="{escape(consent_input(each))}" value="yes"{_required(each.is_required)}>'
        lines.append(f"  <label>{box} {escape(each.wording)}</label>")
    trap = 'style="position:absolute;left:-100vw" tabindex="-1" autocomplete="off" aria-hidden="true"'
    lines += [
        f'  <input type="text" name="website" {trap}>',
        f"  <button>{escape(content.button or 'Subscribe')}</button>",
        "</form>",
        f'<script src="{escape(public_url)}/form/~script.js" async></script>',
    ]
    return "\n".join(lines)


def _field(field: FormField) -> str:
    name, required = escape(field_input(field)), _required(field.is_required)
    label = escape(field.label)
    match field.type:
        case FieldType.CHECKBOX:
            return f'<label><input type="checkbox" name="{name}" value="yes"{required}> {label}</label>'
        case FieldType.CHOICE:
            options = "".join(f"<option>{escape(each)}</option>" for each in field.choices)
            return f'<label>{label} <select name="{name}"{required}><option></option>{options}</select></label>'
        case _:
            kind = "date" if field.type is FieldType.DATE else "text"
            return f'<label>{label} <input type="{kind}" name="{name}" maxlength="500"{required}></label>'


def _required(is_required: bool) -> str:
    return " required" if is_required else ""
