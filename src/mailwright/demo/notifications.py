"""The demo notifications: a seat opens in a course, and the subscribers have different preferences."""

from typing import Any

import orjson
from sqlalchemy import insert

from mailwright.app.notification_queue import (
    make_fanout,
    notification_config,
    open_configured_queue,
    open_queue_database,
)
from mailwright.app.wiring import Engine
from mailwright.sources.notifications.fanout import NotificationFanout
from mailwright.sources.notifications.producer import EventProducer, NewEvent
from mailwright.sources.notifications.queue import NotificationQueue, create_queue

SUBJECT: dict[str, Any] = {"term_id": "92026", "campus_code": "NB", "index_number": "10001"}
WORKER = "demo"


async def load_notifications(engine: Engine) -> None:
    """Create the notification queue, with subscribers and one event, and enqueue the notifications."""
    async with open_queue_database(engine.settings, engine.database) as database:
        await create_queue(database, None)
    async with open_configured_queue(engine.settings, engine.database) as queue:
        await _subscribe(queue)
        course = {"courseTitle": "Difference Engines", "courseString": "01:198:112", "sectionNumber": "02"}
        seat = NewEvent(**SUBJECT, status_before="Closed", status_after="Open", payload=course)
        await EventProducer(queue, engine.clock, notification_config(engine.settings).kinds).emit(seat)
        await (await _fanout(engine, queue)).claim_due(100)


async def record_notifications(engine: Engine) -> None:
    if engine.settings.notify_database_url is not None:
        async with open_configured_queue(engine.settings, engine.database) as queue:
            await (await _fanout(engine, queue)).record_results()


async def _fanout(engine: Engine, queue: NotificationQueue) -> NotificationFanout:
    return await make_fanout(engine.settings, engine.database, engine.clock, engine.templates, queue, worker=WORKER)


async def _subscribe(queue: NotificationQueue) -> None:
    everyone = [
        _subscriber("mary@example.com", "en"),
        _subscriber("sofia@example.com", "ru"),
        _subscriber("clarice@example.com", "pt-BR"),
        _subscriber("annie@example.com", "en", {"snoozeUntil": "2099-01-01T00:00:00Z"}),
        _subscriber("joan@example.com", "en", {"notifyOn": ["Closed"]}),
    ]
    async with queue.database.write() as tx:
        await tx.execute(insert(queue.tables.subscriptions).values(everyone))


def _subscriber(email: str, locale: str, preferences: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        **SUBJECT,
        "contact_type": "email",
        "contact_value": email,
        "locale": locale,
        "status": "active",
        "unsubscribe_token": f"demo-{email.partition('@')[0]}",
        "metadata": orjson.dumps({"preferences": preferences or {}}).decode(),
    }
