"""The figures and their goals, each from runs of the same rounds."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from bench import (
    articles,
    campaigns,
    commands,
    dkim,
    filling,
    importing,
    mailwright,
    notifications,
    outgoing_webhooks,
    pacing,
    pages,
    scale,
    sequences,
    settling,
    submission,
    tracked_links,
    waking,
    webhooks,
)
from bench.accept import accepted_per_second
from bench.children import NotMeasured
from bench.contenders import CONTENDERS, Results
from bench.http_sink import started_http_sink
from bench.migrated import migrated
from bench.race import Run
from bench.sink import started_sink
from bench.stage import Stage, part

PEERS = ("bullmq", "celery", "procrastinate")


@dataclass(frozen=True, slots=True)
class Figure:
    id: str
    what: str
    ours: str
    theirs: str
    ratio: float | None
    goal: str
    met: bool | None  # None if it was not measured; `ours` has the reason.
    command: str


@dataclass(frozen=True, slots=True)
class Found:
    ours: str
    theirs: str = ""
    ratio: float | None = None
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The options of the command line."""

    stage: Stage
    count: int
    rounds: int
    quick: bool
    tell: Callable[[str, int], None]

    def command(self, name: str) -> str:
        return f"python -m bench {name} --count {self.count} --runs {self.rounds}"


# Figures that come from the same race, and the contenders that they need.
RACERS = {
    "sqlite-speed": ("limit", "sqlite"),
    "postgresql-speed": ("limit", "postgresql", "postgresql-2"),
    "peers": ("sqlite", "postgresql", *PEERS),
    "processes": tuple(f"{engine}{number}" for engine in ("sqlite", "postgresql") for number in ("", "-2", "-4")),
    "cpu": ("sqlite", "postgresql"),
    "http-speed": ("ses", "sendgrid", "aiobotocore"),
    "own-html": ("limit", "sqlite", "html", "html-text", "bullmq-html"),
}
OF_THE_LIMIT = {"sqlite": 0.8, "postgresql": 0.7, "postgresql-2": 0.7}
OF_A_PEER = 10
OF_AIOBOTOCORE = 5
# By messages per request and processes.
SUBMITTED_PER_CPU_SECOND = 2_000
OF_THE_SINK = 0.5
ACCEPTED_PER_SECOND = {(1, 1): 2_500, (1, 2): 4_000, (1_000, 1): 20_000, (1_000, 2): 20_000}
OWN_HTML_SECONDS = {"html": 0.45, "html-text": 0.3}  # CPU per 1,000 messages
OWN_HTML_OF_THE_LIMIT = 0.2
OWN_HTML_OF_TEMPLATES = 0.7
OWN_HTML_OF_BULLMQ = 3.0
WEBHOOK_MILLISECONDS = {"ses": 0.7, "sendgrid": 0.1}  # CPU per event
NOTIFIED_PER_SECOND = 3_000
DELIVERED_WEBHOOKS_PER_SECOND = 1_000
REDIRECTED_PER_SECOND = 3_000
REDIRECT_P99_MILLISECONDS = 20
REDIRECTS_OFFERED_PER_SECOND = (500, 1_000)
OF_OPENSSL = 1.1
SETTLED_MILLISECONDS = 10
SETTLING_CPU_MILLISECONDS = {1: 2.0, 20: 0.2}  # Per message, by messages per commit.
WOKEN_MILLISECONDS = {"Valkey": 60, "LISTEN": 100, "polling": 600}
OF_BARE_PYTHON = 6
MATERIALISED_PER_SECOND = 50_000
IMPORTED_PER_SECOND = 50_000
IMPORT_MEGABYTES = 200
ASSEMBLED_SECONDS = 10
MEAN_DEVIATION = 0.01
STEP_MILLISECONDS = 1
EVENT_MILLISECONDS = 0.5  # 2,000 events per second
ENROLMENT_SECONDS = 10
# The caches of SQLite, which do not grow with the number of contacts.
GROWTH_MEGABYTES = 150


def of_race(name: str, order: Order, results: Results) -> Iterator[Figure]:
    measure = {
        "sqlite-speed": _against_limit,
        "postgresql-speed": _against_limit,
        "peers": _against_peers,
        "processes": _processes,
        "cpu": _cpu,
        "http-speed": _against_aiobotocore,
        "own-html": _own_html,
    }
    return measure[name](name, order, results)


def _against_limit(name: str, order: Order, results: Results) -> Iterator[Figure]:
    def found(racer: str) -> Found:
        ratio = results.ratio(racer, "limit")
        return Found(_rate(results, racer), _rate(results, "limit"), ratio, ratio >= OF_THE_LIMIT[racer])

    for racer in RACERS[name]:
        if racer != "limit":
            what = f"{CONTENDERS[racer].title}, against the limit"
            yield _figure(order, name, what, f"≥ {OF_THE_LIMIT[racer]}", found, racer)


def _processes(name: str, order: Order, results: Results) -> Iterator[Figure]:
    """Compare several processes with one. On two cores, they share the processors with the sink and the database."""

    def found(engine: str, processes: int) -> Found:
        ratio = results.ratio(f"{engine}-{processes}", engine)
        return Found(_rate(results, f"{engine}-{processes}"), _rate(results, engine), ratio, ratio >= 1)

    for engine in ("sqlite", "postgresql"):
        for processes in (2, 4):
            what = f"{CONTENDERS[f'{engine}-{processes}'].title}, against one"
            yield _figure(order, name, what, "≥ 1", found, engine, processes)


def _against_peers(name: str, order: Order, results: Results) -> Iterator[Figure]:
    def found(peer: str) -> Found:
        ours = min("sqlite", "postgresql", key=lambda engine: results.ratio(engine, peer))
        ratio = results.ratio(ours, peer)
        return Found(_rate(results, ours), _rate(results, peer), ratio, ratio >= OF_A_PEER)

    for peer in PEERS:
        what = f"Mailwright (the slower of its engines), against {CONTENDERS[peer].title}"
        yield _figure(order, name, what, f"≥ {OF_A_PEER}", found, peer)


def _against_aiobotocore(name: str, order: Order, results: Results) -> Iterator[Figure]:
    """The peer only sends; queue, database and message building are on Mailwright's side alone."""

    def found(provider: str) -> Found:
        ratio = results.ratio(provider, "aiobotocore")
        return Found(_rate(results, provider), _rate(results, "aiobotocore"), ratio, ratio >= OF_AIOBOTOCORE)

    for provider in ("ses", "sendgrid"):
        what = f"{CONTENDERS[provider].title}, against {CONTENDERS['aiobotocore'].title}"
        yield _figure(order, name, what, f"≥ {OF_AIOBOTOCORE}", found, provider)


def _cpu(name: str, order: Order, results: Results) -> Iterator[Figure]:
    def found(racer: str, value: Callable[[Run], float], goal: float) -> Found:
        seconds = results.median(racer, value)
        return Found(f"{seconds:.3f} s", met=seconds <= goal)

    worker, with_database = (lambda run: run.cpu_per_thousand), (lambda run: run.cpu_per_thousand_with_database)
    what = "CPU seconds per 1,000 messages"
    yield _figure(order, name, f"{what}: worker, PostgreSQL", "≤ 0.15", found, "postgresql", worker, 0.15)
    yield _figure(order, name, f"{what}: with database, PostgreSQL", "≤ 0.18", found, "postgresql", with_database, 0.18)
    yield _figure(order, name, f"{what}: with database, SQLite", "≤ 0.13", found, "sqlite", with_database, 0.13)


def _own_html(name: str, order: Order, results: Results) -> Iterator[Figure]:
    def cpu(racer: str) -> Found:
        seconds = results.median(racer, lambda run: run.cpu_per_thousand)
        return Found(f"{seconds:.3f} s", met=seconds <= OWN_HTML_SECONDS[racer])

    def against(racer: str, other: str, goal: float) -> Found:
        ratio = results.ratio(racer, other)
        return Found(_rate(results, racer), _rate(results, other), ratio, ratio >= goal)

    for racer, goal in OWN_HTML_SECONDS.items():
        what = f"CPU seconds per 1,000 messages: {CONTENDERS[racer].title}"
        yield _figure(order, name, what, f"≤ {goal}", cpu, racer)
    for racer, other, ratio in (
        ("html", "limit", OWN_HTML_OF_THE_LIMIT),
        ("html-text", "sqlite", OWN_HTML_OF_TEMPLATES),
        ("html", "bullmq-html", OWN_HTML_OF_BULLMQ),
    ):
        what = f"{CONTENDERS[racer].title}, against {CONTENDERS[other].title}"
        yield _figure(order, name, what, f"≥ {ratio}", against, racer, other, ratio)


def inbound_webhooks(order: Order) -> Iterator[Figure]:
    def found(source: str, goal: float) -> Found:
        count, taken = 1_000 if source == "ses" else 10_000, []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: {count:,} events of {source}, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                taken.append(webhooks.milliseconds_per_event(source, url, count))
        return Found(f"{median(taken):.3f} ms, {1000 / median(taken):,.0f}/s", met=median(taken) <= goal)

    for source, goal in WEBHOOK_MILLISECONDS.items():
        size = "one event" if source == "ses" else f"{webhooks.EVENTS_PER_REQUEST:,} events"
        what = f"SQLite: CPU time of an inbound event of {source}, {size} per request"
        yield _figure(order, "webhooks", what, f"≤ {goal} ms", found, source, goal)


def outgoing(order: Order) -> Iterator[Figure]:
    count = max(1_000, order.count // 4)

    def found() -> Found:
        rounds = []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: {count:,} outgoing webhooks, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url, started_http_sink(order.stage.scratch) as sink:
                rounds.append(outgoing_webhooks.measured(url, sink.url, count))
        rate, cpu = median(each.per_second for each in rounds), median(each.per_cpu_second for each in rounds)
        return Found(f"{rate:,.0f}/s, {cpu:,.0f} per CPU second", met=rate >= DELIVERED_WEBHOOKS_PER_SECOND)

    what = f"SQLite: {count:,} outgoing webhooks to one endpoint that answers at once, from event to recorded response"
    yield _figure(order, "outgoing-webhooks", what, f"≥ {DELIVERED_WEBHOOKS_PER_SECOND:,}/s", found)


def tracked(order: Order) -> Iterator[Figure]:
    def found() -> Found:
        taken = []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: {order.count:,} opens and clicks, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                spool = order.stage.scratch / f"spool-{number}"
                taken.append(tracked_links.milliseconds_per_request(url, spool, order.count))
        rate = 1000 / median(taken)
        return Found(f"{median(taken):.3f} ms, {rate:,.0f}/s", met=rate >= REDIRECTED_PER_SECOND)

    what = "CPU time of an open or click of a tracked link, without the HTTP server"
    yield _figure(order, "tracked-links", what, f"≥ {REDIRECTED_PER_SECOND:,}/s", found)

    def found_times(rate: int) -> Found:
        rounds = []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: {rate:,} redirects per second, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                rounds.append(tracked_links.redirect_times(order.stage, url, rate, 2 if order.quick else 10))
        p50, p99 = median(each.p50 for each in rounds), median(each.p99 for each in rounds)
        longest = median(each.longest for each in rounds)
        return Found(f"{p50:.1f}, {p99:.1f} and {longest:.1f} ms", met=p99 < REDIRECT_P99_MILLISECONDS)

    for rate in REDIRECTS_OFFERED_PER_SECOND:
        what = f"p50, p99 and longest response of a redirect over HTTP, one process, {rate:,} requests per second"
        goal = f"p99 < {REDIRECT_P99_MILLISECONDS} ms"
        yield _figure(order, "tracked-links", what, goal, found_times, rate)


def signatures(order: Order) -> Iterator[Figure]:
    def found() -> Found:
        pairs = []
        for number in range(1, order.rounds + 1):
            order.tell(f"DKIM with RSA-2048, round {number} of {order.rounds}", 0)
            pairs.append((dkim.milliseconds_per_email(200), dkim.milliseconds_of_openssl()))
        ratio = median(ours / theirs for ours, theirs in pairs)
        ours, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
        return Found(f"{ours:.2f} ms", f"{theirs:.2f} ms", ratio, ratio <= OF_OPENSSL)

    what = "CPU time of a DKIM signature with RSA-2048, against openssl speed rsa2048"
    yield _figure(order, "dkim", what, f"≤ {OF_OPENSSL}", found)


def command_start(order: Order) -> Iterator[Figure]:
    def found(command: str) -> Found:
        order.tell(f"mailwright {command}", 0)
        with order.stage.sqlite_url() as url:
            asyncio.run(migrated(url))
            taken = [(commands.cpu_seconds(command, url), commands.bare_python_seconds()) for _ in range(order.rounds)]
        ours, bare = (min(each) for each in zip(*taken, strict=True))
        return Found(f"{ours:.2f} s", f"{bare:.3f} s", ours / bare, ours <= OF_BARE_PYTHON * bare)

    for command in commands.COMMANDS:
        what = f"CPU time of `mailwright {command}` with an empty database, the least of all rounds, against Python"
        yield _figure(order, "commands", what, f"≤ {OF_BARE_PYTHON}", found, command)


def large_sequences(order: Order) -> Iterator[Figure]:
    """Compare CPU time, with the database's share. The fill takes minutes."""
    people = order.count * 50  # a million by default

    def found(engine: str, new: Callable[[], AbstractContextManager[str]]) -> Found:
        with new() as url:
            order.tell(f"{engine}: a sequence with {people:,} people", 0)
            costs = sequences.measured(url, people).costs
        step = costs["step with email"].milliseconds - costs["email alone"].milliseconds
        entered = costs["enrolment"].process + costs["enrolment"].database
        rehearsed = costs["rehearsal"].process + costs["rehearsal"].database
        event, idle = costs["event"].milliseconds, costs["idle pass"].milliseconds
        ours = f"step {step:.2f} ms, event {event:.2f} ms, enrolment {entered:.1f} s, rehearsal {rehearsed:.1f} s"
        met = step <= STEP_MILLISECONDS and event <= EVENT_MILLISECONDS
        met = met and max(entered, rehearsed) <= ENROLMENT_SECONDS
        return Found(f"{ours}, idle pass {idle:.1f} ms", met=met)

    for engine, new in (("SQLite", order.stage.sqlite_url), ("PostgreSQL", order.stage.postgresql_url)):
        what = f"{engine}: CPU time of a due step besides its email, an event by HTTP, 100,000 enrolments, a rehearsal"
        goal = f"≤ {STEP_MILLISECONDS} ms, ≤ {EVENT_MILLISECONDS} ms, ≤ {ENROLMENT_SECONDS} s"
        yield _figure(order, "sequences", what, goal, found, engine, new)


def claim_cost(order: Order) -> Iterator[Figure]:
    """Needs `prepare_claims(database_url, rows)` and `claim_seconds(database_url) -> float` of `bench.mailwright`."""
    few, many = 10_000, 200_000 if order.quick else 10_000_000

    def found(engine: str, new: Callable[[], AbstractContextManager[str]]) -> Found:
        fill, claim = part("bench.mailwright", "prepare_claims"), part("bench.mailwright", "claim_seconds")
        with new() as small, new() as large:
            for url, rows in ((small, few), (large, many)):
                order.tell(f"{engine}: an outbox of {rows:,} rows", 0)
                fill(url, rows)
            order.tell(f"{engine}: claims in turns", 0)
            pairs = [(claim(small), claim(large)) for _ in range(order.rounds)]
        ratio = median(large / small for small, large in pairs)
        ours, theirs = median(pair[1] for pair in pairs), median(pair[0] for pair in pairs)
        return Found(f"{ours * 1000:.2f} ms", f"{theirs * 1000:.2f} ms", ratio, ratio <= 1.3)

    for engine, new in (("SQLite", order.stage.sqlite_url), ("PostgreSQL", order.stage.postgresql_url)):
        what = f"{engine}: a claim with {many:,} rows in the outbox, against {few:,}"
        yield _figure(order, "claim-cost", what, "≤ 1.3", found, engine, new)


def settling_cost(order: Order) -> Iterator[Figure]:
    """Compare one message per commit, as on an idle worker, with as many as a busy worker settles together."""
    commits = 100 if order.quick else 500

    def found(engine: str, new: Callable[[], AbstractContextManager[str]], size: int) -> Found:
        rounds = []
        for number in range(1, order.rounds + 1):
            order.tell(f"{engine}: {commits} commits of {size} results, round {number} of {order.rounds}", 0)
            with new() as url:
                rounds.append(settling.settled(url, commits, size))
        wait = median(each.clock * 1000 / each.number for each in rounds)
        cpu = median(each.milliseconds / size for each in rounds)
        met = wait <= SETTLED_MILLISECONDS and cpu <= SETTLING_CPU_MILLISECONDS[size]
        return Found(f"{wait:.1f} ms, {cpu:.2f} ms of CPU time per message", met=met)

    for engine, new in (("SQLite", order.stage.sqlite_url), ("PostgreSQL", order.stage.postgresql_url)):
        for size, goal in SETTLING_CPU_MILLISECONDS.items():
            what = (
                f"{engine}: a commit that settles finished attempts and begins the next; attempts of each kind: {size}"
            )
            goal_text = f"≤ {SETTLED_MILLISECONDS} ms, ≤ {goal} ms per message"
            yield _figure(order, "settling", what, goal_text, found, engine, new, size)


def lone_message(order: Order) -> Iterator[Figure]:
    """Measure how long a message waits for an idle worker, which is woken or looks every half second."""

    def found(new: Callable[[], AbstractContextManager[str]], way: str) -> Found:
        taken = []
        for number in range(1, order.rounds + 1):
            order.tell(f"a lone message, {way}: round {number} of {order.rounds}", 0)
            more = {"MAILWRIGHT_REDIS_URL": order.stage.valkey.url} if way == "Valkey" else {}
            with new() as url:
                taken.append(waking.wake_milliseconds(order.stage, url, 5 if order.quick else 20, more))
        return Found(f"{median(taken):.0f} ms", met=median(taken) <= WOKEN_MILLISECONDS[way])

    postgresql, sqlite = order.stage.postgresql_url, order.stage.sqlite_url
    for engine, new, way in (
        ("PostgreSQL", postgresql, "Valkey"),
        ("PostgreSQL", postgresql, "LISTEN"),
        ("SQLite", sqlite, "polling"),
    ):
        what = f"{engine}, {way}: from the request of a lone message to its arrival"
        yield _figure(order, "lone-message", what, f"≤ {WOKEN_MILLISECONDS[way]} ms", found, new, way)


def api_accept(order: Order) -> Iterator[Figure]:
    def found(what: str, batch: int, processes: int) -> Found:
        rates = []
        for number in range(1, order.rounds + 1):
            order.tell(f"{what}: round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                seconds = 2 if order.quick else 10
                rates.append(
                    accepted_per_second(
                        order.stage, batch=batch, seconds=seconds, database_url=url, processes=processes
                    )
                )
        return Found(f"{median(rates):,.0f}/s", met=median(rates) >= ACCEPTED_PER_SECOND[batch, processes])

    for (batch, processes), goal in ACCEPTED_PER_SECOND.items():
        what = "API accept, SQLite, " + ("one message a request" if batch == 1 else f"batches of {batch:,}")
        what += f", {processes} processes" if processes > 1 else ""
        yield _figure(order, "accept", what, f"≥ {goal:,}/s", found, what, batch, processes)


def smtp_submission(order: Order) -> Iterator[Figure]:
    """Compare CPU time, because on a busy machine the client and both servers share the cores."""
    emails = submission.EMAILS_PER_CONNECTION * (40 if order.quick else 200)

    def found() -> Found:
        ours, theirs, ratios = [], [], []
        for number in range(1, order.rounds + 1):
            order.tell(f"SMTP submission: round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url, submission.listening(order.stage, url) as (server, port, key):
                submission.submitted_per_second(port, range(-submission.EMAILS_PER_CONNECTION, 0), key)
                accepted, before = mailwright.audit(url)["accepted"], server.cpu_seconds()
                rate = submission.submitted_per_second(port, range(emails), key)
                ours.append(emails / (server.cpu_seconds() - before))
                stored = mailwright.audit(url)["accepted"] - accepted
                if stored != emails:
                    raise NotMeasured(f"{emails} emails got a 250 and {stored} are in the database")
            with started_sink(order.stage.scratch) as sink:
                theirs.append(submission.submitted_per_second(sink.port, range(emails), None))
            ratios.append(rate / theirs[-1])
        ratio = median(ratios)
        goal = SUBMITTED_PER_CPU_SECOND
        is_met = median(ours) >= goal and ratio >= OF_THE_SINK
        return Found(f"{median(ours):,.0f} per CPU second", f"{median(theirs):,.0f}/s", ratio, is_met)

    what = "SMTP submission, SQLite, one process, 50 emails a connection; ratio: rate beside smtp-sink"
    yield _figure(order, "submission", what, f"≥ {SUBMITTED_PER_CPU_SECOND:,}/s, ratio ≥ 0.5", found)


def memory(order: Order) -> Iterator[Figure]:
    """Compare the last quarter of a long run with the second: neither memory nor rate may drift."""
    count = order.count * 50  # a million by default

    def measured() -> Run:
        with order.stage.sqlite_url() as url:
            order.tell(f"SQLite: {count:,} messages for the memory and the rate of a worker", count)
            part("bench.mailwright", "prepare")(url, count)
            run = mailwright.drain(order.stage, url, count)
        if len(run.progress) < 8:
            raise NotMeasured("the run was too short to see a change: raise --count")
        return run

    run = cache(measured)

    def memory_found() -> Found:
        quarter = len(run().rss_bytes) // 4
        growth = median(run().rss_bytes[-quarter:]) / median(run().rss_bytes[quarter : 2 * quarter])
        peak = run().peak_rss_bytes / 1e6
        return Found(f"{peak:.0f} MB", ratio=growth, met=peak <= 200 and growth <= 1.1)

    def rate_found() -> Found:
        rates = [run().rate_of_quarter(number) for number in range(4)]
        ratio = rates[3] / rates[1]
        return Found(", ".join(f"{rate:,.0f}" for rate in rates), ratio=ratio, met=ratio >= 0.9)

    what = f"memory of a worker over {count:,} messages: peak; ratio of the last quarter to the second"
    yield _figure(order, "memory", what, "≤ 200 MB, ratio ≤ 1.1", memory_found)
    what = f"messages per second of a worker in each quarter of {count:,}; ratio of the last to the second"
    yield _figure(order, "memory", what, "ratio ≥ 0.9", rate_found)


def campaign_start(order: Order) -> Iterator[Figure]:
    people = order.count * 50  # a million by default

    def found() -> Found:
        rates, grown = [], []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: a campaign for {people:,} people, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                walked = campaigns.measured(url, people)
            rates.append(walked.per_second)
            grown.append(walked.megabytes_after - walked.megabytes_before)
        ours = f"{median(rates):,.0f}/s, +{median(grown):.0f} MB"
        return Found(ours, met=median(rates) >= MATERIALISED_PER_SECOND and median(grown) <= GROWTH_MEGABYTES)

    what = f"SQLite: starting a campaign for {people:,} people, until each has a message; memory that it took"
    goal = f"≥ {MATERIALISED_PER_SECOND:,}/s, ≤ {GROWTH_MEGABYTES} MB"
    yield _figure(order, "campaign-start", what, goal, found)


def large_import(order: Order) -> Iterator[Figure]:
    rows = order.count * 50  # a million by default

    def found() -> Found:
        rounds = []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: a file of {rows:,} people, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                rounds.append(importing.measured(url, rows)[0])
        rate, most = median(each.per_second for each in rounds), median(each.megabytes for each in rounds)
        met = rate >= IMPORTED_PER_SECOND and most <= IMPORT_MEGABYTES and all(each.added == rows for each in rounds)
        return Found(f"{rate:,.0f}/s, {most:.0f} MB at the most", met=met)

    what = f"SQLite: importing a file of {rows:,} new people, with a report of each row"
    yield _figure(order, "import", what, f"≥ {IMPORTED_PER_SECOND:,}/s, ≤ {IMPORT_MEGABYTES} MB", found)


def article_assembly(order: Order) -> Iterator[Figure]:
    readers = order.count * 5  # 100,000 by default

    def found() -> Found:
        rounds = []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: an article for {readers:,} readers, round {number} of {order.rounds}", 0)
            with order.stage.sqlite_url() as url:
                rounds.append(articles.measured(url, readers))
        seconds = median(each.seconds for each in rounds)
        grown = median(each.megabytes_after - each.megabytes_before for each in rounds)
        ours = f"{seconds:.1f} s, {rounds[0].variants} variants, +{grown:.0f} MB"
        return Found(ours, met=seconds <= ASSEMBLED_SECONDS and grown <= GROWTH_MEGABYTES)

    what = f"SQLite: 50 slices for {readers:,} readers in Ohio, until each has a message; memory that it took"
    goal = f"≤ {ASSEMBLED_SECONDS} s, ≤ {GROWTH_MEGABYTES} MB"
    yield _figure(order, "article-assembly", what, goal, found)


def fan_out(order: Order) -> Iterator[Figure]:
    rows = order.count // 2 // notifications.EVENTS * notifications.EVENTS  # 10,000 by default, of a hundred events

    def found() -> Found:
        rounds = []
        for number in range(1, order.rounds + 1):
            order.tell(f"SQLite: {rows:,} notifications of a queue, round {number} of {order.rounds}", 0)
            rounds.append(notifications.measured(rows))
        rate, cpu = median(each.per_second for each in rounds), median(each.cpu_seconds for each in rounds)
        ours = f"{rate:,.0f}/s, {cpu:.1f} s of processor time, {sum(each.refused for each in rounds)} lock errors"
        is_right = all(each.messages == each.notifications == rows and not each.refused for each in rounds)
        return Found(ours, met=is_right and rate >= NOTIFIED_PER_SECOND)

    what = f"SQLite: {rows:,} notifications of a queue that another program is writing, until each row has its result"
    yield _figure(order, "notifications", what, f"≥ {NOTIFIED_PER_SECOND:,}/s, each sent once, no lock error", found)


def even_pace(order: Order) -> Iterator[Figure]:
    def found(new: Callable[[], AbstractContextManager[str]], rate: int) -> Found:
        order.tell(f"a mailout of {rate} messages per second", 0)
        with new() as url:
            even = pacing.measured(url, rate)
        ours = f"{even.shortest:.1f}, {even.mean:.1f} and {even.longest:.1f} ms between {even.messages} messages"
        met = even.shortest >= even.ideal and even.deviation <= MEAN_DEVIATION
        return Found(ours, f"{even.ideal:.0f} ms", even.mean / even.ideal, met)

    for engine, new in (("SQLite", order.stage.sqlite_url), ("PostgreSQL", order.stage.postgresql_url)):
        for rate in pacing.RATES:
            what = f"{engine}: shortest, mean and longest interval of a mailout at {rate}/s"
            yield _figure(order, "pacing", what, "never shorter, mean ≤ 1.01", found, new, rate)


def large_pages(order: Order) -> Iterator[Figure]:
    size = filling.Size(10 if order.quick else 1_000)

    def found(engine: str, new: Callable[[], AbstractContextManager[str]]) -> Found:
        folder = order.stage.scratch / f"pages-{engine}"
        with new() as url:
            order.tell(f"{engine}: an installation of {size.of(1_000_000):,} messages", 0)
            pages.filled(url, folder, size)
            order.tell(f"{engine}: every page, {pages.TIMES} times", 0)
            timed = list(pages.measured(order.stage, url, folder))
        late = [each for each in timed if each.p95 > pages.GOAL_MILLISECONDS]
        slowest = max(timed, key=lambda each: each.p95)
        ours = f"{len(timed) - len(late)} of {len(timed)}; the slowest, {slowest.path}, {slowest.p95:.0f} ms"
        return Found(ours, met=not late)

    for engine, new in (("SQLite", order.stage.sqlite_url), ("PostgreSQL", order.stage.postgresql_url)):
        what = f"{engine}: pages and routes that take so long, with {size.of(1_000_000):,} messages"
        yield _figure(order, "pages", what, f"p95 ≤ {pages.GOAL_MILLISECONDS} ms", found, engine, new)


def large_installation(order: Order) -> Iterator[Figure]:
    """Measure once, because it takes an hour: filling, import, campaign, pages, backup, sending and retention."""
    messages, people = order.count * 250, order.count * 50  # five million and a million by default
    for engine, new in (("SQLite", order.stage.sqlite_url), ("PostgreSQL", order.stage.postgresql_url)):
        order.tell(f"{engine}: an installation of {messages:,} messages", 0)
        folder = order.stage.scratch / f"scale-{engine}"
        folder.mkdir()
        with new() as url:
            facts = {"messages": messages, "people": people, "seconds": 5 if order.quick else scale.SECONDS}
            for row in scale.measured(scale.Installation(order.stage, url, folder, **facts)):
                what = f"{engine}: {row.what}"
                yield Figure("scale", what, row.measured, "", None, row.goal, row.met, order.command("scale"))


ALONE: dict[str, Callable[[Order], Iterator[Figure]]] = {
    "claim-cost": claim_cost,
    "settling": settling_cost,
    "lone-message": lone_message,
    "accept": api_accept,
    "submission": smtp_submission,
    "memory": memory,
    "campaign-start": campaign_start,
    "import": large_import,
    "article-assembly": article_assembly,
    "notifications": fan_out,
    "pacing": even_pace,
    "pages": large_pages,
    "sequences": large_sequences,
    "scale": large_installation,
    "webhooks": inbound_webhooks,
    "outgoing-webhooks": outgoing,
    "tracked-links": tracked,
    "dkim": signatures,
    "commands": command_start,
}
NAMES = (
    "sqlite-speed",
    "postgresql-speed",
    "processes",
    "peers",
    "cpu",
    "http-speed",
    "own-html",
    "webhooks",
    "outgoing-webhooks",
    "tracked-links",
    "dkim",
    "commands",
    "claim-cost",
    "settling",
    "lone-message",
    "accept",
    "submission",
    "memory",
    "campaign-start",
    "import",
    "article-assembly",
    "notifications",
    "pacing",
    "pages",
    "sequences",
    "scale",
)


def _rate(results: Results, name: str) -> str:
    return f"{results.median(name, lambda run: run.rate):,.0f}/s"


def _figure(order: Order, name: str, what: str, goal: str, measure: Callable[..., Found], *facts: Any) -> Figure:
    try:
        found = measure(*facts)
    except NotMeasured as reason:
        found = Found(f"not measured: {reason}")
    return Figure(name, what, found.ours, found.theirs, found.ratio, goal, found.met, order.command(name))
