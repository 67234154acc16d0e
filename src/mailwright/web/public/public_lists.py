"""Public lists: find a list for its sign-up form and archive."""

from starlette.requests import Request

from mailwright.app.wiring import Engine
from mailwright.audience.lists import List, list_all
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT, InvalidToken
from mailwright.outbox import tenants
from mailwright.web.languages import chosen_language
from mailwright.web.public.subscribers import tenant_named


@dataclass(frozen=True, slots=True)
class PublicList:
    """A public list, with the tenant and language that its links keep."""

    tenant_id: int
    list: List
    tenant: str | None  # None for the first tenant, whose links contain no tenant name
    language: str | None  # the language that the visitor chose

    @property
    def here(self) -> str:
        """The query string to which each language link adds `lang`."""
        return "?" if self.tenant is None else f"?tenant={self.tenant}"

    def link(self, path: str, **query: str) -> str:
        """Return a relative link, which works behind any proxy path."""
        given = {"tenant": self.tenant, **query, "lang": self.language}
        named = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"{path}?{named}" if named else path


async def find_public_list(request: Request, engine: Engine, list_key: str) -> PublicList:
    """Find a public list. A private list is reported as not found."""
    name = request.query_params.get("tenant", tenants.DEFAULT)
    try:
        tenant_id = await tenant_named(engine, name)
    except InvalidToken as error:
        raise NotFound from error
    known = await list_all(engine.database, tenant_id)
    found = next((each for each in known if each.list_key == list_key and each.is_public), None)
    if found is None:
        raise NotFound
    return PublicList(tenant_id, found, None if tenant_id == FIRST_TENANT else name, chosen_language(request))
