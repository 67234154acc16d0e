"""Run actions on another server, over its HTTP API. No database is opened."""

import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from mailwright.cli.output import aside
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.network import is_private_host

KEY_VARIABLE: Final = "MAILWRIGHT_API_KEY"
_TIMEOUT_SECONDS: Final = 60


class ServerUnreachable(MailwrightError):
    """The server cannot be reached."""

    code = "SERVER_UNREACHABLE"


class ServerRefused(MailwrightError):
    """The server refused the request."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")))
        self.code = str(problem.get("code", self.code))


class _Target:
    """The server of this process, from `--server` or `MAILWRIGHT_SERVER`. None: this installation."""

    url: str | None = None


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, because it would send the API key to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def use_server(url: str | None) -> None:
    """Run the commands of this process on another server."""
    if not url:
        return
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or address.query or address.fragment:
        raise InvalidInput("must be the address of a server, for example https://mail.example.com", field="--server")
    if address.scheme == "http" and not is_private_host(address.hostname):
        aside.print("! The API key is sent without encryption. Use https.", style="yellow", markup=False)
    _Target.url = url.rstrip("/")


def server() -> str | None:
    return _Target.url


def require_local(what: str) -> None:
    """Raise if the commands of this process run on another server, because `what` works only on this machine."""
    if _Target.url is not None:
        raise InvalidInput(
            f"{what} works only on the machine of the installation. Run it there, without --server and "
            "MAILWRIGHT_SERVER.",
            field="--server",
        )


def request(
    method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None, file: Path | None = None
) -> bytes:
    """Call the API of the server and return the content of the response."""
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise InvalidInput(
            f"is not set. Create a key with `mailwright key create` on {_Target.url}.", field=KEY_VARIABLE
        )
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json", "User-Agent": "mailwright-cli"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    suffix = f"?{urlencode(query, doseq=True)}" if query else ""
    content = None if body is None else json.dumps(body).encode()
    if file is not None:
        headers |= {"Content-Type": "application/octet-stream", "X-File-Name": quote(file.name)}
        headers["Content-Length"] = str(file.stat().st_size)
    try:
        with nullcontext(content) if file is None else _open_upload(file) as sent:
            wanted = Request(f"{_Target.url}{path}{suffix}", sent, headers, method=method)  # noqa: S310 - http and https only
            with build_opener(_NoRedirects).open(wanted, timeout=_TIMEOUT_SECONDS) as response:
                found: bytes = response.read()
                return found
    except HTTPError as error:
        raise _refusal(error) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ServerUnreachable(f"The server {_Target.url} cannot be reached: {reason}.") from error


def _open_upload(file: Path) -> Any:
    """Open a file that is sent as it is read, with its progress on stderr."""
    from rich.progress import open as open_with_progress  # noqa: PLC0415 - only uploads need it

    return open_with_progress(file, "rb", description=file.name, console=aside, transient=True)


def _refusal(error: HTTPError) -> MailwrightError:
    """Return the error that the server reported, as a command on the installation would raise it."""
    from mailwright.sources.api.validation import FieldError, RequestInvalid  # noqa: PLC0415 - only for errors

    try:
        problem = json.loads(error.read())
        fields = [FieldError(each["field"], each["code"], each["message"]) for each in problem.get("errors") or ()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ServerUnreachable(f"The server {_Target.url} does not answer like Mailwright (HTTP {error.code}).")
    match error.code:
        case HTTPStatus.UNAUTHORIZED:
            return InvalidInput(f"is not a valid API key of {_Target.url}.", field=KEY_VARIABLE)
        case HTTPStatus.UNPROCESSABLE_ENTITY if fields:
            return RequestInvalid(fields)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return ServerUnreachable(str(problem.get("detail")))
    return ServerRefused(problem)
