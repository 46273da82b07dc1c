"""A shop's tasks, done by Celery: `celery -A examples.rabbitmq.shop worker --pool solo`.

Results come back over `rpc://`, through a queue of whoever asked. A task is acknowledged when it is
done, so that another worker does what a killed one had begun; the queue has ten priorities.
`python -m examples.rabbitmq.customer` is who asks.
"""

import os
import time

import celery

from examples.rabbitmq.connection import URL

QUEUE = os.environ.get("AMQP_QUEUE", "shop")

app = celery.Celery("shop", broker=os.environ.get("AMQP_URL", URL), backend="rpc://")
app.conf.update(
    task_default_queue=QUEUE,
    task_queue_max_priority=10,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    result_expires=60,
)
_packed: list[str] = []


@app.task(name="total")
def total(*prices: int) -> int:
    """Add prices up."""
    return sum(prices)


@app.task(name="refund")
def refund(order: int) -> None:
    """Fail: the error goes to whoever asked."""
    raise ValueError(f"order {order} was never paid")


@app.task(name="charge", bind=True)
def charge(task: celery.Task, failures: int) -> int:
    """Ask a bank that does not answer so many times; how often it was asked."""
    if task.request.retries < failures:
        raise task.retry(countdown=0.2, max_retries=failures)
    return int(task.request.retries) + 1


@app.task(name="remind")
def remind() -> float:
    """Remind somebody, at the time that was asked for; when that was."""
    return time.time()


@app.task(name="pack")
def pack(parcel: str, seconds: float = 0.01) -> str:
    """Pack a parcel, which takes its time."""
    time.sleep(seconds)
    _packed.append(parcel)
    return parcel


@app.task(name="packed")
def packed() -> list[str]:
    """The parcels as they were packed by this worker."""
    return list(_packed)
