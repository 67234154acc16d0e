"""The dashboard: pages for people, rendered by the server. They hold no rule: the same parts answer them as the API.

To add a page:

1. A module here, `things.py`, with `router = APIRouter(route_class=PageRoute, include_in_schema=False)`: whatever goes
   wrong is then told as a page, and whoever is not signed in is sent to sign in.
2. Each route names who may: `visitor: Viewing` (looks), `Editing` (changes), `Administering`. Give `visitor.tenant_id`
   to every query and `visitor.actor` to every deed. Forms are posted, with `{{ ui.token() }}` inside; htmx sends the
   token by itself. That is all that the check against foreign pages needs.
3. A template, `templates/things.html`: `{% extends "base.html" %}`, `{% import "parts.html" as ui with context %}`, the
   blocks `title`, `content`, and where needed `scripts` and `styles`. Look into `parts.html` before you write HTML by
   hand: status, wait, figures, table and paging, empty, field, area (with an editor), choice, tick, act (a button, with
   a question first), heading, bar, facts, copyable, tabs, linked. `time(instant)` is in the viewer's zone, and
   `{{ n | number }}` has thin spaces. No style attribute and no inline script: the policy of the page refuses both.
4. `return await page(request, visitor, "things.html", …)`; for a part that htmx asked for `fragment(…)`; after a form
   `return done(request, "/things", "Saved.")`; a mail's own HTML as `framed(html)` under an address of its own, shown
   in `<iframe sandbox src=…>`. Fields come from `fields_of(request)`; what is wrong with them goes back as
   `errors=errors_of(error)` with status 422, and each field shows its own.
5. Live parts: `<div data-live="/things/stream">` around elements that have ids, `live.js` in the scripts block, and a
   route that returns `stream(request, visitor, "things", look)`.
6. Lists are paged by cursor (`schemas/paging.py`); figures come from roll-ups (`outbox/tallies.py`) or from indexes
   of what is open: never from counting a table that grows.
7. Its router goes to `pages.py`, its line to `navigation.py`; only then do `link` and `ui.linked` lead to it. Others
   expect `/messages?status=…`, `/messages/{outboxId}`, `/campaigns/{campaignId}` and `/dead-letters`. A script or style
   of its own goes to `static/`, and is linked with `{{ asset("things.js") }}`.
8. Its address goes to `PAGES` of `tests/dashboard.py`: each page there is looked at with axe, narrow and wide, light
   and dark. What it does is tested in `tests/acceptance/test_dashboard_things.py`; `python -m tests.screens` takes
   pictures.
"""
