"""A Celery application that confirms orders by email: MAILWRIGHT_URL=… MAILWRIGHT_API_KEY=… celery -A tasks worker"""

import os
from functools import cache

from celery import Celery

from mailwright_client import Client, NotReached, Unavailable, models

app = Celery("shop", broker=os.environ.get("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0"))


@cache
def email() -> Client:
    """Return the client of this process. The first task opens it, because a connection must not be shared by a fork."""
    return Client(os.environ["MAILWRIGHT_URL"], os.environ["MAILWRIGHT_API_KEY"])


# A task whose worker was killed runs again. The key makes all attempts send one email.
@app.task(acks_late=True, autoretry_for=(NotReached, Unavailable), retry_backoff=True, max_retries=10)
def confirm(order: int, address: str) -> str:
    confirmation = models.SendRequest(
        to=address, from_="shop@example.com", subject=f"Order {order}", text="Thank you for your order."
    )
    return email().email.send(confirmation, idempotency_key=f"order-{order}").outbox_id
