"""Other settings for a queue of a vhost, wherever it runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.queue_stores.queue_settings import QueueSettings
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.model.declarations import DeclaredQueue


def change_settings(
    host: "QueueHost", queue: "DeclaredQueue", settings: "QueueSettings", now_ms: int
) -> None:
    """Give a declared queue other settings at the wall time `now_ms`.

    A broker's channels may have it as a queue of another broker although this one leads it by now.
    """
    queue.change(settings, now_ms)
    for running in (host.queues.get(queue.name), host.targets.elsewhere.get(queue.name)):
        if running is not None:
            running.apply(settings)
