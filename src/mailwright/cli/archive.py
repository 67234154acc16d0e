"""`mailwright archive publish` and `withdraw`, which are one action. `list` is derived from the actions."""

from typing import Annotated

import typer

from mailwright.actions.archive import ArchiveResponse, noun, set_archived
from mailwright.cli.derived import make_group, perform
from mailwright.cli.output import out

app = make_group(noun)

CampaignId = Annotated[
    str, typer.Argument(metavar="ID", help="The campaign id that `campaign create` prints.", show_default=False)
]


@app.command()
def publish(campaign: CampaignId) -> None:
    """Publish a started campaign in the archive and print its addresses."""
    for url in _set(campaign, is_public=True).urls:
        out.print(url, markup=False, soft_wrap=True)


@app.command()
def withdraw(campaign: CampaignId) -> None:
    """Remove a campaign from the archive."""
    out.print(f"{_set(campaign, is_public=False).name} is no longer in the archive.", markup=False)


def _set(campaign: str, *, is_public: bool) -> ArchiveResponse:
    found: ArchiveResponse = perform(noun.find(set_archived), {"isPublic": is_public}, path={"campaign_id": campaign})
    return found
