"""procrastinate with aiosmtplib, on PostgreSQL: concurrent jobs in one event loop, kept SMTP connections."""

from pathlib import Path

from bench.peers import compete, python_environment
from bench.race import Run
from bench.stage import Stage

REQUIREMENTS = ("procrastinate==3.10.0", "psycopg[binary]==3.3.8", "aiosmtplib==5.1.3", "jinja2==3.1.6")


def run(stage: Stage, count: int, processes: int, concurrency: int) -> Run:
    python = python_environment("procrastinate", REQUIREMENTS) / "python"
    with stage.postgresql_url() as url:
        return compete(
            stage,
            "procrastinate",
            count,
            enqueue=[python, "mail.py", "enqueue"],
            work=[python, "mail.py", "work"],
            processes=processes,
            queue_url=url,
            database=stage.postgresql.process,
            env={"BENCH_CONCURRENCY": str(concurrency), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=Path(__file__).parent,
        )
