"""The dashboard: server-rendered pages. They hold no business rule: they call the same services as the HTTP API.

How to add a page:

1. Create a module here, for example `things.py`, with `router = APIRouter(prefix="/things", route_class=PageRoute,
   include_in_schema=False)`. `PageRoute` renders errors as pages and sends visitors who are not signed in to the
   sign-in page.
2. Declare the required role on every route: `visitor: ViewerDep` (read), `EditorDep` (change) or `AdminDep`. Pass
   `visitor.tenant_id` to every query and `visitor.actor` to every change. Forms use POST and contain `{{ ui.token()
   }}`; htmx sends the token in a header. The CSRF check needs nothing else.
3. Write a template `templates/things.html` that extends `base.html`, imports `components.html` as `ui` and fills the
   blocks `title` and `content` (and `scripts` and `styles` if needed). Use the macros of `components.html` before
   writing HTML: status, wait, figures, table, paging, empty, field, area, choice, checkbox, action, heading, bar,
   facts, copyable, tabs. `time(instant)` shows a time in the viewer's time zone; `{{ n | number }}` formats a number.
   Inline scripts and `style` attributes are blocked by the Content-Security-Policy.
4. Return `await page(request, visitor, "things.html", ...)`, `fragment(...)` for a part that htmx loads, or
   `redirect(request, "/things", "Thing saved.")` after a form. Serve the HTML of an email with `email_frame(html)`
   from a route of its own and show it in `<iframe sandbox src=...>`. Read forms with `read_fields(request)`; on
   invalid input render the form again with status 422 and `errors=field_errors(error)`, and each field shows its own
   error.
5. For live updates wrap elements that have ids in `<div data-live="/things/stream">`, load `live.js` in the scripts
   block, and return `stream(request, visitor, "things", render_parts)` from that route.
6. Page lists by cursor (`schemas/paging.py`). Take figures from the tallies (`outbox/tallies.py`) or from indexes of
   open rows; never count a table that grows.
7. Add the router to `pages.py` and an entry to `navigation.py`. Put scripts and styles into `static/` and link them
   with `{{ asset("things.js") }}`.
8. Add the address to `PAGES` in `tests/dashboard.py`: the suite checks each page there with axe, narrow and wide,
   light and dark. Test its behaviour in `tests/acceptance/test_dashboard_things.py`, and run `python -m
   tests.screens` for the screenshots in the docs.
"""
