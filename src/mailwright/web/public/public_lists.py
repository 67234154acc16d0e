"""Visiting: pages of a list that are for everyone, whoever they are."""

from dataclasses import dataclass

from starlette.requests import Request

from mailwright.audience.lists import List, list_all
from mailwright.domain.errors import NotFound
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT, InvalidToken
from mailwright.outbox import tenants
from mailwright.web.parts import ApiParts
from mailwright.web.public.language import chosen_language
from mailwright.web.public.subscribers import tenant_named


@dataclass(frozen=True, slots=True)
class PublicList:
    """A public list, and what the links between its pages carry along."""

    tenant_id: int
    list: List
    tenant: str | None  # None for the first one, which no link names
    language: str | None  # as the visitor chose it

    @property
    def here(self) -> str:
        """This page, for links to it in other languages."""
        return "?" if self.tenant is None else f"?tenant={self.tenant}"

    def link(self, path: str, **query: str) -> str:
        """Relative, so that it holds behind any proxy and path."""
        given = {"tenant": self.tenant, **query, "lang": self.language}
        named = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"{path}?{named}" if named else path


async def find_public_list(request: Request, parts: ApiParts, list_key: str) -> PublicList:
    """Only a public list: one that is not, like one that never was, is not there."""
    name = request.query_params.get("tenant", tenants.DEFAULT)
    try:
        tenant_id = await tenant_named(parts, name)
    except InvalidToken as error:
        raise NotFound from error
    known = await list_all(parts.database, tenant_id)
    found = next((each for each in known if each.list_key == list_key and each.is_public), None)
    if found is None:
        raise NotFound
    return PublicList(tenant_id, found, None if tenant_id == FIRST_TENANT else name, chosen_language(request))


def sender_of(parts: ApiParts, public_list: PublicList) -> str | None:
    return parts.public_pages.sender if public_list.tenant_id == FIRST_TENANT else None
