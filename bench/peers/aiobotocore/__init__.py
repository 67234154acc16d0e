"""aiobotocore alone: no queue and no database. Its messages are rendered beforehand; only the requests are timed."""

from pathlib import Path

from bench import http_sink, job
from bench.children import Child, call
from bench.http_sink import started_http_sink
from bench.peers import python_environment
from bench.race import Run, race
from bench.stage import Stage

REQUIREMENTS = ("aiobotocore==3.10.0", "jinja2==3.1.6")


def run(stage: Stage, count: int, processes: int, concurrency: int) -> Run:
    """Run one process, because the figure compares single processes. The requested number is ignored."""
    python = python_environment("aiobotocore", REQUIREMENTS) / "python"
    folder = stage.scratch / "aiobotocore"
    job.write(folder, count)
    with started_http_sink(stage.scratch) as sink:
        env = {
            "BENCH_JOB": str(folder),
            "BENCH_SES_URL": sink.url,
            "BENCH_CONCURRENCY": str(concurrency),
            "AWS_REGION": http_sink.REGION,
            "AWS_DEFAULT_REGION": http_sink.REGION,
            "AWS_ACCESS_KEY_ID": http_sink.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": http_sink.SECRET_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        here = Path(__file__).parent
        call([python, "mail.py", "compose"], env=env, cwd=here)
        child = Child([python, "mail.py", "send"], stage.log("aiobotocore"), env, here)
        found = race(sink, [child], count, until_exit=True, advance=stage.advance)
        sink.look_at_the_first()
        return found
