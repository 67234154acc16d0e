"""New designs for campaigns and sequences: a template of blocks that the composer opens."""

from collections.abc import Sequence

from mailwright.app.wiring import Engine
from mailwright.content.blocks.starters import Starter, list_starters
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import gettext
from mailwright.web.dashboard.templates_new import BLANK, create_from_starter
from mailwright.web.session import Visitor


def list_designs() -> Sequence[Starter]:
    """Return the starters of bulk email. An empty email is offered in addition."""
    return [each for each in list_starters() if each.kind == "bulk"]


async def create_design(
    engine: Engine,
    visitor: Visitor,
    template_id: str,
    design: str,
    *,
    name: str,
    subject: str | None,
    field: str = "design",
) -> str:
    """Store a new template of blocks, and return its ID."""
    if design != BLANK and design not in {each.name for each in list_designs()}:
        raise InvalidInput(gettext("Choose a design from the list."), field=field)
    return await create_from_starter(engine, visitor, template_id, design, name=name, subject=subject)
