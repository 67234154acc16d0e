"""Routes of the API. Each one states its permission: the scope of an API key, and the role of a signed-in user."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Depends
from starlette.routing import BaseRoute, Route

from mailwright.access.roles import Role
from mailwright.web.api.administrator import ADMINISTRATORS_ONLY, API_KEY_SCHEME
from mailwright.web.api.caller import Credential, Needed, Permission, caller_of, declare_permission, permission_of

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

# The field of each operation of `/v1` in the API description that names the scope it needs.
SCOPE: Final = "x-scope"
_NO_API_KEY: Final[dict[Credential, dict[str, Any]]] = {
    Credential.ADMINISTRATOR: ADMINISTRATORS_ONLY,
    Credential.SIGNATURE: {"security": []},
}
_KEY_OR_PASSWORD: Final[dict[str, Any]] = {"security": [{API_KEY_SCHEME: []}, *ADMINISTRATORS_ONLY["security"]]}


class Routes(APIRouter):
    """A router whose routes cannot be declared without `scope`. Python refuses them when their module is imported.

    FastAPI authenticates the caller of a route with a scope, even if its function does not take the caller. Routes with
    a credential and `PlainRoute`s call the function that authenticates themselves.
    """

    def get(self, path: str, *, scope: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return self.declare("GET", path, scope, **options)

    def post(self, path: str, *, scope: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return self.declare("POST", path, scope, **options)

    def put(self, path: str, *, scope: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return self.declare("PUT", path, scope, **options)

    def patch(self, path: str, *, scope: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return self.declare("PATCH", path, scope, **options)

    def delete(self, path: str, *, scope: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:  # type: ignore[override]
        return self.declare("DELETE", path, scope, **options)

    def declare(
        self,
        method: str,
        path: str,
        scope: Needed,
        *,
        role: Role = Role.VIEWER,
        takes_password: bool = False,
        openapi_extra: dict[str, Any] | None = None,
        **options: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare a route. `role` is the one that signed-in users need. `takes_password`: see `Permission`."""
        declare_permission(method, self.prefix + path, Permission(scope, role, takes_password))
        credential = _NO_API_KEY[scope] if isinstance(scope, Credential) else None
        security = _KEY_OR_PASSWORD if takes_password else credential
        return self.api_route(
            path,
            methods=[method],
            dependencies=[Depends(caller_of)] if credential is None else None,
            openapi_extra={**(security or {}), SCOPE: scope.value, **(openapi_extra or {})},
            **options,
        )


def require_permissions(routes: Iterable[BaseRoute]) -> None:
    """Raise if a route of the API states no permission."""
    for route in routes:
        if isinstance(route, Route) and route.path.startswith("/v1/"):
            for method in route.methods or ():
                if permission_of(method, route.path) is None:
                    raise TypeError(f"{method} {route.path} states no permission.")
