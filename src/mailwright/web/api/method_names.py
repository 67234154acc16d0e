"""Name the operations of the API as the clients call them: `email.send` is `client.email.send(…)`."""

import re
from collections.abc import Mapping
from typing import Any, Final

# Only providers call these routes, for example `/ses-events`.
_PROVIDER_ROUTE: Final = re.compile(r"/[a-z]+-events\b")
# Path prefix → group of methods, the first match counts; other paths are grouped by the segment after `/v1/`.
_GROUPS: Final = {
    "/v1/contacts/imports": "imports",
    "/v1/contacts/moves": "moves",
    "/v1/": "",
    "/mail/progress": "progress",
    "/send-mailout": "mailouts",
    "/": "health",
}
# Names that differ from the name of the route's function.
_NAMES: Final = {
    "show": "get",
    "why": "explain",
    "try_out": "test",
    "search": "list",
    "healthz": "alive",
    "readyz": "ready",
    "prometheus": "metrics",
}


def method_name(method: str, path: str, operation: Mapping[str, Any]) -> str | None:
    """Return the group and the name of the method, or None for a route that no client calls."""
    if _PROVIDER_ROUTE.match(path):
        return None
    start, found = next(each for each in _GROUPS.items() if path.startswith(each[0]))
    group = found or path.removeprefix(start).partition("/")[0].replace("-", "_")
    # FastAPI's operation id is the name of the function, the path and the method.
    end = re.sub(r"\W", "_", path) + f"_{method.lower()}"
    own = str(operation["operationId"]).removesuffix(end)
    own = "list" if own == f"list_{group}" else own
    return f"{group}.{_NAMES.get(own, own)}"
