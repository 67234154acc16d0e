"""The context of an action that a request or a page asks for."""

from fastapi import Request

from mailwright.access.api_keys import Caller
from mailwright.actions.context import Context
from mailwright.web.session import Visitor
from mailwright.web.state import engine_of, result_cache_of


def context_of(request: Request, caller: Caller, source: str) -> Context:
    """Return what an action works with. `source` is recorded beside consents."""
    engine = engine_of(request)
    cached = result_cache_of(request).get
    return Context(engine.settings, engine.clock, engine.database, caller, source, cached, engine=engine)


def visitor_context(request: Request, visitor: Visitor) -> Context:
    """Return the context of an action on a page, whose route has checked the role of the user."""
    caller = Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)
    return context_of(request, caller, visitor.actor)
