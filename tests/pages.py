"""A dashboard client without a browser: open pages and submit their forms, without scripts.

Only forms and buttons that exist on the page can be submitted.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

import httpx
from fastapi import FastAPI

from mailwright.app.wiring import Engine
from mailwright.outbox.audit_log import list_entries

HOME: Final = "http://mail.example"
PASSWORD: Final = "correct horse battery"


@dataclass
class Form:
    action: str | None
    method: str
    attributes: dict[str, str]
    fields: list[tuple[str, str]] = field(default_factory=list)
    named: set[str] = field(default_factory=set)  # including unchecked boxes
    buttons: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def filled(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a browser would send; None leaves a box unchecked."""
        unknown = set(changes) - self.named
        assert not unknown, f"the form {self.action} has no {unknown}"
        sent: dict[str, Any] = {}
        for name, value in self.fields:
            if name not in changes:
                sent.setdefault(name, []).append(value)
        return sent | {name: value for name, value in changes.items() if value is not None}


def forms_of(html: str) -> list[Form]:
    reader = _Reader()
    reader.feed(html)
    return reader.forms


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select: str | None = None
        self._options: list[tuple[str, bool]] = []
        self._area: str | None = None
        self._button: dict[str, str] | None = None
        self._words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            assert self._form is None, "nested forms"
            self._form = Form(has.get("action"), has.get("method", "get").lower(), has)
            self.forms.append(self._form)
        elif self._form is None:
            return
        elif tag == "input" and "name" in has:
            self._form.named.add(has["name"])
            if has.get("type") not in ("checkbox", "radio") or "checked" in has:
                self._form.fields.append((has["name"], has.get("value", "on" if "checked" in has else "")))
        elif tag == "select":
            self._select, self._options = has.get("name"), []
        elif tag == "option" and self._select:
            self._options.append((has.get("value", ""), "selected" in has))
        elif tag == "textarea":
            self._area, self._words = has.get("name"), []
        elif tag == "button":
            self._button, self._words = has, []

    def handle_endtag(self, tag: str) -> None:
        if self._form is None:
            return
        if tag == "form":
            self._form = None
        elif tag == "select" and self._select:
            self._form.named.add(self._select)
            chosen = next((value for value, is_on in self._options if is_on), None)
            first = self._options[0][0] if self._options else ""
            self._form.fields.append((self._select, first if chosen is None else chosen))
            self._select = None
        elif tag == "textarea" and self._area:
            self._form.named.add(self._area)
            self._form.fields.append((self._area, "".join(self._words).removeprefix("\n")))
            self._area = None
        elif tag == "button" and self._button is not None:
            self._form.buttons.append((" ".join("".join(self._words).split()), self._button))
            self._button = None

    def handle_data(self, data: str) -> None:
        self._words.append(data)


class Visit:
    """A signed-in user and their current page."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.answer = httpx.Response(200)

    @property
    def text(self) -> str:
        return self.answer.text

    @property
    def path(self) -> str:
        return self.answer.request.url.path

    @property
    def flash(self) -> str:
        """Return the flash message."""
        found = re.search(r'<(?:p|div) class="flash[^>]*>(.*?)</p>', self.text, re.DOTALL)
        return re.sub(r"<svg.*?</svg>|<p>", "", found[1], flags=re.DOTALL) if found else ""

    def words(self) -> str:
        """Return the text of the page without tags."""
        main = self.text.partition("<main")[2].partition("</main>")[0]
        return " ".join(re.sub(r"<[^>]+>", " ", main).split())

    def forms(self) -> list[Form]:
        return forms_of(self.text)

    def buttons(self) -> list[str]:
        return [words for form in self.forms() for words, _ in form.buttons]

    async def open(self, path: str, status: int = 200) -> "Visit":
        self.answer = await self.client.get(path, follow_redirects=True)
        assert self.answer.status_code == status, f"{path}: {self.answer.status_code}\n{self.words()[:2000]}"
        return self

    async def press(self, button: str, status: int = 200, *, nth: int = 0, **changes: Any) -> "Visit":
        """Fill in a form, press its nth button with this label and follow redirects."""
        found = [(form, has) for form in self.forms() for words, has in form.buttons if words == button]
        assert len(found) > nth, f"{self.path} has no such button as {button!r}: {self.buttons()}"
        form, has = found[nth]
        assert form.method == "post", form.action
        action = has.get("formaction") or form.action
        assert action, f"the form of {button!r} goes nowhere"
        own = {has["name"]: has.get("value", "")} if "name" in has else {}
        self.answer = await self.client.post(action, data=form.filled(changes) | own, follow_redirects=True)
        assert self.answer.status_code == status, f"{action}: {self.answer.status_code}\n{self.words()[:2000]}"
        return self


@asynccontextmanager
async def a_visit(app: FastAPI, login: str = "ada", password: str = PASSWORD) -> AsyncIterator[Visit]:
    headers = {"Origin": HOME, "Accept": "text/html"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=HOME, headers=headers) as client:
        answer = await client.post("/sign-in", data={"login": login, "password": password})
        assert answer.status_code == 303, answer.text
        yield Visit(client)


async def actions_on(engine: Engine, subject: str) -> Sequence[str]:
    """Return the recorded actions on a subject, oldest first."""
    found = await list_entries(engine.database, tenant_id=None, limit=50, subject=subject)
    return [entry.action for entry in reversed(found)]
