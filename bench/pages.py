"""Response times of all pages with a million messages in the database.

`python -m bench pages` measures both engines. `python -m bench.pages DATABASE FOLDER` measures a database that
was filled before with `--fill`.
"""

import argparse
import asyncio
import contextlib
import http.client
import math
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson
import psutil

from bench import filling, mailwright
from bench.children import NotMeasured
from bench.stage import Stage
from mailwright.schemas.paging import encode_cursor

TIMES: Final = 20
# All listeners share one query per second, so later requests are made after it.
STREAM_TIMES: Final = 4
STREAM_PAUSE: Final = 1.05
GOAL_MILLISECONDS: Final = 100
PASSWORD: Final = "correct horse battery"

LARGE, IN_LINE = filling.LARGE_CAMPAIGN, filling.CAMPAIGN_IN_LINE
_HTML: Final = {"Accept": "text/html"}

# The paths of all pages, in the order of the navigation; `{webhook}` and `{import}` are looked up.
PAGES: Final = (
    "/",
    "/?range=day",
    "/?range=month",
    "/overview/forecast",
    "/campaigns",
    "/campaigns/ends",
    "/campaigns/new",
    f"/campaigns/{LARGE}",
    f"/campaigns/{LARGE}/recipients",
    f"/campaigns/{LARGE}/recipients?cursor=reader3%40example.com",
    f"/campaigns/{LARGE}/recipients?show=failed",
    f"/campaigns/{LARGE}/recipients?show=in_doubt",
    f"/campaigns/{LARGE}/report",
    f"/campaigns/{LARGE}/report/figures",
    f"/campaigns/{LARGE}/report/opens",
    f"/campaigns/{LARGE}/click-map?version=",
    f"/campaigns/{LARGE}/content",
    f"/campaigns/{LARGE}/mail",
    f"/campaigns/{LARGE}/checks",
    f"/campaigns/{LARGE}/forecast",
    f"/campaigns/{IN_LINE}",
    f"/campaigns/{IN_LINE}/forecast",
    f"/campaigns/{IN_LINE}/report/figures",
    "/reports",
    "/templates",
    "/templates/receipt",
    "/templates/receipt/edit",
    "/templates/receipt/diff",
    "/templates/template-1",
    "/messages",
    "/messages?cursor={middle}",
    "/messages?status=SENT",
    "/messages?status=PENDING",
    "/messages?status=RETRY_SCHEDULED",
    "/messages?status=FAILED",
    "/messages?status=IN_DOUBT",
    "/messages?status=CANCELLED",
    "/messages?source=campaign",
    "/messages?source=article",
    "/messages?source=mailout",
    "/messages?source=api&status=FAILED",
    "/messages?q=reader77%40example.com",
    "/messages?q=Order+77",
    "/messages?q=nowhere+to+be+found",
    f"/messages?campaign={LARGE}",
    f"/messages?campaign={LARGE}&status=FAILED",
    f"/messages?campaign={LARGE}&q=nowhere",
    f"/messages?campaign={LARGE}&status=PENDING",
    f"/messages?campaign={IN_LINE}&status=PENDING",
    f"/messages/{filling.SENT_MESSAGE}",
    f"/messages/{filling.SENT_MESSAGE}/frame",
    "/dead-letters",
    "/mailbox",
    "/contacts",
    "/contacts?q=reader77",
    "/contacts?q=nobody+at+all",
    "/contacts?q=reader77%40example.com",
    "/contacts?status=bounced",
    "/contacts?status=deleted",
    "/contacts?list=news",
    "/contacts?list=general",
    "/contacts?tag=tag-7",
    "/contacts?list=news&tag=tag-7&status=bounced",
    "/contacts/new",
    "/contacts/reader77@example.com",
    f"/contacts/{filling.BUSY_ADDRESS}",
    "/lists",
    "/lists/news",
    "/lists/news/count",
    "/lists/offers/count",
    "/segments",
    "/segments/collectors",
    "/segments/collectors/count",
    "/segments/orders-39",
    "/segments/orders-0/count",
    "/segments/collectors/edit",
    "/segments/new",
    "/imports",
    "/imports/{import}",
    "/suppressions",
    "/suppressions?q=reader7",
    "/articles",
    "/articles/spring-vote",
    "/articles/spring-vote/preview?as=columbus@example.com",
    "/articles/spring-vote/coverage",
    "/articles/spring-vote/coverage/results",
    "/articles/spring-vote/runs",
    "/articles/spring-vote/send",
    f"/articles/~runs/{filling.LARGE_RUN}",
    f"/articles/~runs/{filling.LARGE_RUN}?show=failed",
    f"/articles/~runs/{filling.LARGE_RUN}?show=in+doubt",
    f"/articles/~runs/{filling.LARGE_RUN}?show=cancelled",
    "/articles/~import",
    "/articles/~new?article=spring-vote",
    "/mailouts",
    f"/mailouts/{filling.LARGE_MAILOUT}",
    "/notifications",
    "/notifications?status=failed",
    "/notifications/types",
    "/notifications/1050",
    "/settings/webhooks",
    "/settings/webhooks/{webhook}",
    "/settings/webhooks/{webhook}?status=FAILED",
    "/settings/webhooks/{webhook}?status=PENDING",
    "/settings/users",
    "/settings/keys",
    "/settings/limits",
    "/settings/providers",
    "/settings/domain",
    "/settings/audit-log",
    "/account",
)
STREAMS: Final = (
    "/overview/stream",
    "/campaigns/stream",
    f"/campaigns/{IN_LINE}/stream",
    f"/articles/~runs/{filling.LARGE_RUN}/stream",
    "/settings/webhooks/{webhook}/stream",
    f"/messages/{filling.SENT_MESSAGE}/stream",
)
ROUTES: Final = (
    "/v1/email?limit=100",
    "/v1/email?limit=100&cursor={middle}",
    "/v1/email?limit=100&status=SENT",
    "/v1/email?limit=100&status=PENDING",
    "/v1/email?limit=100&status=RETRY_SCHEDULED",
    "/v1/email?limit=100&status=FAILED",
    "/v1/email?limit=100&to=reader77%40example.com",
    "/v1/email?limit=100&source=mailout",
    "/v1/email?limit=100&source=article&status=FAILED",
    f"/v1/email/{filling.SENT_MESSAGE}",
    f"/v1/email/{filling.SENT_MESSAGE}/explain",
    "/v1/dead-letters",
    "/v1/campaigns",
    f"/v1/campaigns/{LARGE}",
    f"/v1/campaigns/{LARGE}/failures",
    f"/v1/campaigns/{LARGE}/report",
    "/v1/reports",
    f"/v1/campaigns/{IN_LINE}/explain",
    "/v1/contacts?limit=100",
    "/v1/contacts/reader77@example.com",
    f"/v1/contacts/{filling.BUSY_ADDRESS}/history",
    "/v1/contacts/imports",
    "/v1/lists",
    "/v1/segments",
    "/v1/segments/collectors",
    "/v1/segments/collectors/contacts",
    "/v1/suppressions",
    "/v1/article-runs",
    f"/v1/article-runs/{filling.LARGE_RUN}",
    "/v1/mailouts",
    "/v1/notifications",
    "/v1/webhooks",
    "/v1/journal",
    "/v1/forecast",
    "/mail/progress/poll/",
    "/metrics",
    "/readyz",
)


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds from a request to the last byte of its response, and the CPU time that it took.

    On an idle machine the two are nearly equal. On a busy one, only the CPU time is meaningful.
    """

    path: str
    milliseconds: tuple[float, ...]
    worked: tuple[float, ...]

    @property
    def p95(self) -> float:
        return _p95(self.milliseconds)

    @property
    def p95_worked(self) -> float:
        return _p95(self.worked)


def measured(stage: Stage, url: str, folder: Path, *, times: int = TIMES, only: str = "") -> Iterator[Timed]:
    """Request everything in PAGES, STREAMS and ROUTES from `mailwright serve` in its own process."""

    def wanted(paths: tuple[str, ...]) -> list[str]:
        return [path.format(**names) for path in paths if only in path]

    more = {f"MAILWRIGHT_{name.upper()}": value for name, value in filling.places(url, folder).items()}
    with (
        mailwright.serving(stage, url, {**more, "ADMIN_PASSWORD": PASSWORD}) as service,
        contextlib.closing(Asking(service.url, service.key, Work(service.pid, url))) as asking,
    ):
        asking.sign_in()
        names = asking.names()
        yield from (asking.timed(path, times) for path in wanted(PAGES))
        yield from (asking.listened(path, min(times, STREAM_TIMES)) for path in wanted(STREAMS))
        yield from (asking.timed(path, times, is_api=True) for path in wanted(ROUTES))


def _p95(values: tuple[float, ...]) -> float:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


class Work:
    """Return the CPU milliseconds of all threads of the server and the database so far."""

    def __init__(self, pid: int, database_url: str) -> None:
        self._server = pid
        place = urlsplit(database_url)
        host = parse_qs(place.query).get("host")
        self._postmaster = Path(host[0], "postmaster.pid") if host else None
        self._database = f" {place.path.removeprefix('/')} "

    def milliseconds(self) -> float:
        threads = (thread for pid in self._processes() for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        return sum(_worked(thread) for thread in threads) / 1e6

    def _processes(self) -> Iterator[int]:
        yield self._server
        if self._postmaster is not None:
            first = psutil.Process(int(self._postmaster.read_text(encoding="utf-8").split()[0]))
            for each in first.children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    words = " ".join(each.cmdline())
                    if self._database in words and "autovacuum" not in words:
                        yield each.pid


def _worked(thread: Path) -> int:
    try:
        return int(thread.read_text(encoding="ascii").split()[0])
    except OSError:  # it has ended
        return 0


class Asking:
    def __init__(self, url: str, key: str, work: Work) -> None:
        self._origin = url
        self._work = work
        self._connection = self._connected()
        self._key = {"Authorization": f"Bearer {key}"}
        self._cookie: dict[str, str] = {}

    def close(self) -> None:
        self._connection.close()

    def sign_in(self) -> None:
        form = urlencode({"login": "admin", "password": PASSWORD, "next": ""})
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin}
        self._connection.request("POST", "/sign-in", form, headers)
        answer = self._connection.getresponse()
        answer.read()
        cookie = answer.getheader("Set-Cookie")
        if cookie is None:
            raise NotMeasured(f"nobody could sign in: {answer.status}")
        self._cookie = {"Cookie": cookie.partition(";")[0]}

    def names(self) -> dict[str, str]:
        """Return ids that only the database knows."""

        def told(path: str) -> dict[str, list[dict[str, str]]]:
            found: dict[str, list[dict[str, str]]] = orjson.loads(self._asked(path, is_api=True)[1])
            return found

        return {
            "webhook": told("/v1/webhooks")["webhooks"][0]["webhookId"],
            "import": told("/v1/contacts/imports")["imports"][0]["importId"],
            "middle": quote(encode_cursor("message", filling.ABOVE + filling.ADDRESSES)),
        }

    def timed(self, path: str, times: int, *, is_api: bool = False) -> Timed:
        self._asked(path, is_api=is_api)  # Work that happens at the first request only.
        taken, worked = [], []
        for _ in range(times):
            before = self._work.milliseconds()
            taken.append(self._asked(path, is_api=is_api)[0])
            worked.append(self._work.milliseconds() - before)
        return Timed(path, tuple(taken), tuple(worked))

    def listened(self, path: str, times: int) -> Timed:
        """Wait for the first event."""
        self._connection.close()  # The server would close it during this time, and the client opens it again.
        taken, worked = [], []
        for _ in range(times):
            time.sleep(STREAM_PAUSE)
            before = self._work.milliseconds()
            with contextlib.closing(self._connected()) as connection:
                began = time.perf_counter()
                connection.request("GET", path, headers={**_HTML, **self._cookie})
                answer = connection.getresponse()
                while not answer.readline().startswith(b"data:"):
                    pass
                taken.append((time.perf_counter() - began) * 1_000)
            worked.append(self._work.milliseconds() - before)
        return Timed(path, tuple(taken), tuple(worked))

    def _asked(self, path: str, *, is_api: bool) -> tuple[float, bytes]:
        began = time.perf_counter()
        self._connection.request("GET", path, headers=self._key if is_api else {**_HTML, **self._cookie})
        answer = self._connection.getresponse()
        said = answer.read()
        taken = (time.perf_counter() - began) * 1_000
        if answer.status != 200:
            raise NotMeasured(f"{path} was answered with {answer.status}: {said[:500]!r}")
        return taken, said

    def _connected(self) -> http.client.HTTPConnection:
        place = urlsplit(self._origin)
        return http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)


def filled(url: str, folder: Path, size: filling.Size) -> None:
    """Fill in a separate process, so that its memory is not counted."""
    words = [sys.executable, "-m", "bench.pages", url, str(folder), "--fill", str(size.share)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def show(found: Iterable[Timed]) -> None:
    """Return median and p95 of wall time, then of CPU time."""
    for each in found:
        taken, worked = median(each.milliseconds), median(each.worked)
        print(f"{taken:9.1f} {each.p95:9.1f} {worked:9.1f} {each.p95_worked:9.1f}  {each.path}", flush=True)


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    reader.add_argument("database", help="the address of an empty database, or of one that was filled")
    reader.add_argument("folder", type=Path, help="where what lies beside a database is")
    reader.add_argument("--fill", type=int, metavar="SHARE", help="only fill it: 1000 is a million messages")
    reader.add_argument("--times", type=int, default=TIMES, help=f"how often each page is asked for ({TIMES})")
    reader.add_argument("--only", default="", help="only what has this in its address")
    asked = reader.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.fill:
        asyncio.run(filling.fill(asked.database, asked.folder, filling.Size(asked.fill)))
        return
    with Stage() as stage:
        show(measured(stage, asked.database, asked.folder, times=asked.times, only=asked.only))


if __name__ == "__main__":
    main()
