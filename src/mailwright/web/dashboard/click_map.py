"""The rendered email of a campaign with the number of clicks at each of its links."""

from html import escape
from typing import Final

from mailwright.content.tracked_links import add_parameters, insert_in_links, is_trackable
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain.translation import gettext
from mailwright.outbox.tallies import MAX_URL_CHARACTERS
from mailwright.providers.inbound.sanitize import link_without_query
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.engagement import CampaignEngagement, LinkEngagement

# Styles of the email must not change the badges, and the badges must not move its text much.
_STYLE: Final = (
    "display:inline-block!important;margin:0 4px 0 0!important;padding:1px 6px!important;border-radius:9px!important;"
    "background:#1d4ed8!important;color:#fff!important;font:600 11px/16px system-ui,sans-serif!important;"
    "text-decoration:none!important;vertical-align:middle!important;white-space:nowrap!important;"
)
_UNCLICKED: Final = _STYLE.replace("#1d4ed8", "#6b7280")


def click_map_html(
    html: str,
    engagement: CampaignEngagement,
    definition: CampaignDefinition,
    own_pages: tuple[str, ...],
    *,
    is_tracked: bool = True,
) -> str:
    """Insert a badge at each tracked link: its clicks by people, and their share of all clicks.

    Links to our own pages, such as the unsubscribe page, are never tracked and get none.
    """
    by_url = {link.url: link for link in engagement.links}
    # Anonymous clicks identify no recipients, so only totals exist.
    is_anonymous = not any(link.people for link in engagement.links)
    total = sum(_clicks(link, is_anonymous=is_anonymous) for link in engagement.links)
    utm = definition.utm.model_dump(exclude_none=True) if definition.utm else {}
    parameters = {f"utm_{name}": value for name, value in utm.items()}

    untracked = (*own_pages, *STANDARD_VARIABLES.values())

    def badge(url: str) -> str:
        if not is_trackable(url, untracked):
            return ""
        link = _find(by_url, url, parameters)
        number = _clicks(link, is_anonymous=is_anonymous) if link else 0
        share = f" · {100 * number / total:.0f} %" if total and number else ""
        style = _STYLE if number else _UNCLICKED
        shown = f"{number:,}{share}" if is_tracked else gettext("– not tracked")
        return f'<span style="{escape(style)}" title="{escape(url)}">{shown}</span>'

    return insert_in_links(html, badge)


def _find(by_url: dict[str, LinkEngagement], url: str, parameters: dict[str, str]) -> LinkEngagement | None:
    """Find the clicks of a link. Links with values of the recipient are recorded without their query."""
    target = add_parameters(url, parameters)
    candidates = (target, url, link_without_query(target))
    return next(
        (by_url[each[:MAX_URL_CHARACTERS]] for each in candidates if each and each[:MAX_URL_CHARACTERS] in by_url), None
    )


def _clicks(link: LinkEngagement, *, is_anonymous: bool) -> int:
    return link.total if is_anonymous else link.people
