"""Who asks for an action, for which tenant, and what the action works with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from mailwright.access.api_keys import Caller
from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.settings import Settings
from mailwright.storage.database import Database

if TYPE_CHECKING:
    from mailwright.app.wiring import Engine
    from mailwright.content.template_store import TemplateStore
    from mailwright.outbox.limits import DefaultLimits

Result = TypeVar("Result")


async def _compute(_key: tuple[Any, ...], compute: Callable[[], Awaitable[Result]]) -> Result:
    return await compute()


@dataclass(frozen=True, slots=True)
class Context:
    settings: Settings
    clock: Clock
    database: Database
    caller: Caller
    # Where the request came from, as it is recorded beside a consent: `api`, `cli` or the name of a user.
    source: str
    # Returns the cached result for a key, or computes it. Only servers cache.
    cached: Callable[[tuple[Any, ...], Callable[[], Awaitable[Any]]], Awaitable[Any]] = _compute
    # Whether the caller may name objects of all tenants by their id, or list them, as the console can.
    sees_all_tenants: bool = False
    # The services of a server, with their caches. A command makes the services that it needs.
    engine: "Engine | None" = None
    # The values in the path of the request, for the functions of a noun that do not take them.
    path: Mapping[str, str] = field(default_factory=dict)
    # The time zone of sentences in the result. The API writes them in UTC, a command in the tenant's time zone.
    zone: tzinfo = UTC

    @property
    def tenant_id(self) -> int:
        return self.caller.tenant_id

    @property
    def owner_id(self) -> int | None:
        """The tenant that must own an object with a unique id; None if any tenant may own it."""
        return None if self.sees_all_tenants else self.caller.tenant_id

    @property
    def server(self) -> "Engine":
        """The services of the server, for actions without a command."""
        if self.engine is None:
            raise TypeError("Only a server performs this action.")
        return self.engine

    @property
    def actor(self) -> str:
        """The caller's name in the audit log."""
        return self.caller.audit_name

    @property
    def defaults(self) -> "DefaultLimits":
        """The limits of the installation."""
        if self.engine is not None:
            return self.engine.defaults
        from mailwright.app.limits import defaults_of  # noqa: PLC0415 - slow to import
        from mailwright.providers.route import providers_of  # noqa: PLC0415

        return defaults_of(self.settings, providers_of(self.settings))

    @property
    def templates(self) -> "TemplateStore":
        """The templates, with the cache of the server."""
        if self.engine is not None:
            return self.engine.templates
        from mailwright.app.templates import make_templates  # noqa: PLC0415 - slow to import

        return make_templates(self.settings, self.database, self.clock)

    async def require_default_sender(self) -> None:
        """Raise if the API key is limited to senders, and the tenant's default sender is not one of them."""
        if self.caller.senders is None:
            return
        from mailwright.app.sender_directory import make_directory  # noqa: PLC0415 - slow to import, rarely used
        from mailwright.sources.api.senders import require_sender  # noqa: PLC0415

        directory = make_directory(self.settings, self.database, self.clock)
        require_sender(self.caller, await directory.default_sender(self.tenant_id))
