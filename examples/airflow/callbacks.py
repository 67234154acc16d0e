"""Email about failed tasks of Airflow. In a DAG: `default_args={"on_failure_callback": email_failure}`.

The process of a task needs MAILWRIGHT_URL, MAILWRIGHT_API_KEY and ALERTS_TO in its environment.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from mailwright_client import Client, models


def email_failure(context: Mapping[str, Any]) -> None:
    """Send one email for each failed attempt of a task, even if Airflow runs the callback twice."""
    task = context["task_instance"]
    attempt = (task.dag_id, task.run_id, task.task_id, task.map_index, task.try_number)
    # `task_instance_key_str` would be the same for all runs of a day, and Airflow 3 does not always provide it.
    key = hashlib.sha256(repr(attempt).encode()).hexdigest()
    alert = models.SendRequest(
        to=os.environ["ALERTS_TO"],
        subject=f"{task.dag_id}.{task.task_id} failed"[:150],
        text=f"Run {task.run_id}, attempt {task.try_number}: {context.get('exception')}",
        tags=["airflow"],
    )
    with Client(os.environ["MAILWRIGHT_URL"], os.environ["MAILWRIGHT_API_KEY"]) as client:
        client.email.send(alert, idempotency_key=f"airflow-{key}")
