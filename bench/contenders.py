"""The contenders: the limit of the machine, Mailwright on its engines, and the peers, run alternately."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import job, mailwright
from bench.children import Child, NotMeasured
from bench.debian import tool
from bench.peers import aiobotocore, bullmq, celery, procrastinate
from bench.race import Run, race
from bench.stage import Stage, part

# The Python peers send a part of the messages, to save an hour: more messages did not make them faster.
# BullMQ sends them all: V8 warms up for thousands of messages (300: 138–302/s, 4,000: 382–426/s, 10,000: 410–458/s),
# so a short run would make it look slower than it is.
PYTHON_PEER_SHARE = 0.2
QUALIFYING = 20


@dataclass(frozen=True, slots=True)
class Setting:
    processes: int = 1
    concurrency: int = 10

    def __str__(self) -> str:
        return f"{self.processes} × {self.concurrency}"


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    title: str
    command: str  # Describes the timed part, for the report.
    run: Callable[[Stage, int, Setting], Run]
    settings: Sequence[Setting] = (Setting(),)  # Tried before the race. The race uses the best one.
    share: float = 1.0
    composes: bool = True  # Its messages are checked before the race; over HTTP, in every run.


def limit(stage: Stage, count: int, setting: Setting) -> Run:
    """smtp-source with persistent connections (`-d`), which is the higher limit."""
    source = tool("smtp-source", "postfix")
    options = ["-d", "-s", str(setting.concurrency), "-l", "10240", "-m", str(count)]
    command: list[str | Path] = [source, *options, f"127.0.0.1:{stage.sink.port}"]
    return race(stage.sink, [Child(command, stage.log("smtp-source"))], count, until_exit=True, advance=stage.advance)


def on_sqlite(stage: Stage, count: int, setting: Setting) -> Run:
    with stage.sqlite_url() as url:
        part("bench.mailwright", "prepare")(url, count)
        return mailwright.drain(stage, url, count, processes=setting.processes)


def receipts(*, has_text: bool) -> Callable[[Stage, int, Setting], Run]:
    def run(stage: Stage, count: int, setting: Setting) -> Run:
        with stage.sqlite_url() as url:
            mailwright.prepare_receipts(url, count, has_text=has_text)
            return mailwright.drain(stage, url, count, processes=setting.processes)

    return run


def on_postgresql(stage: Stage, count: int, setting: Setting) -> Run:
    with stage.postgresql_url() as url:
        part("bench.mailwright", "prepare")(url, count)
        stage.postgresql.settle_down()
        return mailwright.drain(stage, url, count, processes=setting.processes)


def over_http(provider: str) -> Callable[[Stage, int, Setting], Run]:
    def run(stage: Stage, count: int, _setting: Setting) -> Run:
        with stage.sqlite_url() as url:
            part("bench.mailwright", "prepare")(url, count)
            return mailwright.drain_over_http(stage, provider, url, count)

    return run


def peer(run: Callable[[Stage, int, int, int], Run]) -> Callable[[Stage, int, Setting], Run]:
    return lambda stage, count, setting: run(stage, count, setting.processes, setting.concurrency)


def several(name: str, engine: str, run: Callable[[Stage, int, Setting], Run], processes: int) -> Contender:
    return Contender(
        f"{name}-{processes}",
        f"Mailwright, {engine}, {processes} processes",
        f"mailwright worker --processes {processes}",
        run,
        settings=(Setting(processes),),
    )


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(
            "limit",
            "smtp-source → smtp-sink",
            "smtp-source -d -s {concurrency} -l 10240",
            limit,
            settings=(Setting(1, 4), Setting(1, 10), Setting(1, 20)),
            composes=False,
        ),
        Contender("sqlite", "Mailwright, SQLite, one process", "mailwright worker --drain", on_sqlite),
        Contender("postgresql", "Mailwright, PostgreSQL, one process", "mailwright worker --drain", on_postgresql),
        *(several("sqlite", "SQLite", on_sqlite, processes) for processes in (2, 4)),
        *(several("postgresql", "PostgreSQL", on_postgresql, processes) for processes in (2, 4)),
        Contender(
            "bullmq",
            "BullMQ + nodemailer",
            "node worker.mjs, concurrency {concurrency}",
            peer(bullmq.run),
            settings=(Setting(1, 10), Setting(1, 50), Setting(2, 10)),
        ),
        Contender(
            "html",
            "Mailwright, SQLite, messages with their own HTML",
            "mailwright worker --drain",
            receipts(has_text=False),
            composes=False,
        ),
        Contender(
            "html-text",
            "Mailwright, SQLite, messages with their own HTML and text",
            "mailwright worker --drain",
            receipts(has_text=True),
            composes=False,
        ),
        Contender(
            "bullmq-html",
            "BullMQ + nodemailer, messages with their own HTML",
            "node worker.mjs, concurrency {concurrency}",
            peer(bullmq.run_receipts),
            settings=(Setting(1, 10), Setting(1, 50), Setting(2, 10)),
            composes=False,
        ),
        Contender(
            "celery",
            "Celery + smtplib",
            "celery worker --concurrency={concurrency}",
            peer(celery.run),
            settings=(Setting(1, 2), Setting(1, 4), Setting(1, 10)),
            share=PYTHON_PEER_SHARE,
        ),
        Contender(
            "procrastinate",
            "procrastinate + aiosmtplib",
            "run_worker_async(concurrency={concurrency})",
            peer(procrastinate.run),
            settings=(Setting(1, 10), Setting(1, 30), Setting(2, 10)),
            share=PYTHON_PEER_SHARE,
        ),
        Contender(
            "ses",
            "Mailwright, SQLite, SES over HTTP",
            "mailwright worker --drain",
            over_http("ses"),
            settings=(Setting(1, 64),),
            composes=False,
        ),
        Contender(
            "sendgrid",
            "Mailwright, SQLite, SendGrid over HTTP",
            "mailwright worker --drain",
            over_http("sendgrid"),
            settings=(Setting(1, 64),),
            composes=False,
        ),
        Contender(
            "aiobotocore",
            "aiobotocore alone",
            "send_email of sesv2, {concurrency} at once",
            peer(aiobotocore.run),
            settings=(Setting(1, 64), Setting(1, 10)),
            composes=False,
        ),
    )
}


@dataclass
class Results:
    """Runs by contender; runs with the same index belong to the same round."""

    runs: dict[str, list[Run]]
    settings: dict[str, Setting]
    missing: dict[str, str]  # Why a contender did not race.

    def median(self, name: str, value: Callable[[Run], float]) -> float:
        return median(value(run) for run in self.of(name))

    def ratio(self, ours: str, theirs: str) -> float:
        """Return the median of the ratios within each round, so that noise of a whole round cancels out."""
        pairs = zip(self.of(ours), self.of(theirs), strict=True)
        return median(our.rate / their.rate for our, their in pairs)

    def of(self, name: str) -> list[Run]:
        if name in self.missing:
            raise NotMeasured(self.missing[name])
        return self.runs[name]


def compete(
    stage: Stage, names: Sequence[str], *, count: int, rounds: int, tell: Callable[[str, int], None]
) -> Results:
    """Verify each contender, find its best setting, then run all alternately, `rounds` times."""
    results = Results({name: [] for name in names}, {}, {})

    def attempt(name: str, action: Callable[[Contender], None]) -> None:
        if name not in results.missing:
            try:
                action(CONTENDERS[name])
            except NotMeasured as reason:
                results.missing[name] = str(reason)

    def qualify_and_tune(contender: Contender) -> None:
        qualify(stage, contender, tell)
        results.settings[contender.name] = best_setting(stage, contender, count, tell)

    def run_once(contender: Contender) -> None:
        share, number = message_count(contender, count), len(results.runs[contender.name]) + 1
        tell(f"{contender.title}: round {number} of {rounds}", share)
        results.runs[contender.name].append(contender.run(stage, share, results.settings[contender.name]))

    for name in names:
        attempt(name, qualify_and_tune)
    for _ in range(rounds):
        for name in names:
            attempt(name, run_once)
    return results


def qualify(stage: Stage, contender: Contender, tell: Callable[[str, int], None]) -> None:
    """Verify that the delivered messages are those of the job, each once."""
    if not contender.composes:
        return
    tell(f"{contender.title}: are its messages right?", QUALIFYING)
    with stage.dumping() as sink:
        contender.run(stage, QUALIFYING, contender.settings[0])
        waiting = {job.recipient(number)["email"]: number for number in range(QUALIFYING)}
        for recipient, message in sink.messages():
            number = waiting.pop(recipient, None)
            objections = ["it came twice"] if number is None else job.objections(message, number)
            if objections:
                raise NotMeasured(f"its message to {recipient} differs from the job: {'; '.join(objections)}")


def best_setting(stage: Stage, contender: Contender, count: int, tell: Callable[[str, int], None]) -> Setting:
    if len(contender.settings) == 1:
        return contender.settings[0]
    share = max(200, message_count(contender, count) // 4)
    rates = {}
    for setting in contender.settings:
        tell(f"{contender.title}: trying {setting}", share)
        rates[setting] = contender.run(stage, share, setting).rate
    return max(rates, key=lambda setting: rates[setting])


def message_count(contender: Contender, count: int) -> int:
    return max(200, int(count * contender.share))
