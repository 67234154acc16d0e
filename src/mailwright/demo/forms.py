"""A sample sign-up form."""

from mailwright.app.wiring import Engine
from mailwright.demo.campaigns import NEWS
from mailwright.domain.sign_up_forms import ConsentBox, FieldType, FormContent, FormField


async def load_form(engine: Engine, tenant_id: int) -> None:
    content = FormContent(
        title="News from the engine room",
        fields=(
            FormField("first_name", "First name", is_required=True),
            FormField("interest", "What interests you most?", FieldType.CHOICE, choices=("Engines", "Looms", "Clocks")),
        ),
        consents=(ConsentBox("profile", "You may use my answers to choose what you send me."),),
    )
    await engine.forms.create(tenant_id, name="Shop window", list_key=NEWS, content=content, actor="demo")
