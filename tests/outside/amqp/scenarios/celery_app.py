"""A Celery application as a team would write it, asked over `rpc://` for its results."""

import os
import time
from typing import Any

import celery

URL = os.environ["AMQP_URL"]
QUEUE = os.environ["AMQP_QUEUE"]

app = celery.Celery("judged", broker=URL, backend="rpc://")
app.conf.update(
    task_default_queue=QUEUE,
    task_queue_max_priority=10,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    task_default_delivery_mode="persistent",
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    result_expires=60,
)


def _add(one: int, two: int) -> int:
    return one + two


def _failing(message: str) -> None:
    raise ValueError(message)


def _flaky(task: Any, times: int) -> int:
    """Fail so many times, and then tell how often it was tried."""
    if task.request.retries < times:
        raise task.retry(countdown=0.2, max_retries=times)
    return int(task.request.retries) + 1


def _when() -> float:
    return time.time()


def _slow(seconds: float, name: str) -> str:
    time.sleep(seconds)
    _ORDER.append(name)
    return name


def _order() -> list[str]:
    """The names of the slow tasks, as they were done."""
    return list(_ORDER)


_ORDER: list[str] = []
add = app.task(_add, name="add")
failing = app.task(_failing, name="failing")
flaky = app.task(_flaky, name="flaky", bind=True)
when = app.task(_when, name="when")
slow = app.task(_slow, name="slow")
order = app.task(_order, name="order")
