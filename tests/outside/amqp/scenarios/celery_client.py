"""Scenarios of the Celery application in examples/, with a real worker of its own for each."""

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import unused
from tests.outside.matrix.scenario import Scenarios, eventually, raises
from tests.support.processes.process import wait_or_kill

scenario = Scenarios("celery", "as used")
ROOT = Path(__file__).parents[4]
APP = "examples.rabbitmq.shop"
RESULT_SECONDS_MAX = 60
_WORKER = ("--pool", "solo", "--loglevel", "WARNING", "--without-mingle")


@contextmanager
def _application(address: Address, *, works: bool = True) -> Iterator[Any]:
    """The application's module, and a worker that serves it, on a queue of its own."""
    os.environ |= {"AMQP_URL": address.url, "AMQP_QUEUE": unused("celery")}
    sys.modules.pop(APP, None)
    module = importlib.import_module(APP)
    try:
        if works:
            with _worker(module):
                yield module
        else:
            yield module
    finally:
        with module.app.connection_for_write() as connection:
            connection.default_channel.queue_delete(module.QUEUE)
        module.app.close()


@contextmanager
def _worker(module: Any) -> Iterator["subprocess.Popen[bytes]"]:
    name = f"{module.QUEUE}@here"
    command = [sys.executable, "-m", "celery", "-A", APP, "worker", "-n", name, *_WORKER]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        try:
            eventually(
                lambda: process.poll() is not None or module.app.control.ping([name], timeout=1),
                "the worker's answer to a ping",
            )
            output.seek(0)
            assert process.poll() is None, output.read()[-2000:].decode(errors="replace")
            yield process
        except BaseException:
            output.seek(0)
            print(output.read()[-2000:].decode(errors="replace"), file=sys.stderr)
            raise
        finally:
            process.terminate()
            wait_or_kill(process, 20)


@scenario
def a_task_is_done_and_its_result_comes_back(address: Address) -> None:
    with _application(address) as module:
        results = [module.total.delay(number, 1) for number in range(20)]
        found = [result.get(timeout=RESULT_SECONDS_MAX) for result in results]
        assert found == [*range(1, 21)]


@scenario
def a_failure_comes_back_as_the_error_it_is(address: Address) -> None:
    with _application(address) as module:
        with raises(ValueError) as failed:
            module.refund.delay(7).get(timeout=RESULT_SECONDS_MAX)
        assert str(failed.error) == "order 7 was never paid"


@scenario
def a_task_is_tried_again_until_it_is_done(address: Address) -> None:
    with _application(address) as module:
        assert module.charge.delay(3).get(timeout=RESULT_SECONDS_MAX) == 4


@scenario
def a_task_waits_for_its_time(address: Address) -> None:
    with _application(address) as module:
        asked = time.time()
        done = module.remind.apply_async(countdown=2).get(timeout=RESULT_SECONDS_MAX)
        assert done - asked >= 2
        assert module.total.delay(1, 1).get(timeout=RESULT_SECONDS_MAX) == 2


@scenario
def urgent_tasks_go_first(address: Address) -> None:
    with _application(address, works=False) as module:
        for name, priority in (("low", 1), ("middle", 5), ("high", 9), ("low, too", 1)):
            last = module.pack.apply_async((name,), priority=priority)
        with _worker(module):
            assert last.get(timeout=RESULT_SECONDS_MAX) == "low, too"
            done = module.packed.delay().get(timeout=RESULT_SECONDS_MAX)
        assert done == ["high", "middle", "low", "low, too"]


@scenario
def what_a_killed_worker_held_is_done_by_the_next(address: Address) -> None:
    with _application(address, works=False) as module:
        with _worker(module) as worker:
            result = module.pack.delay("again", 3.0)
            time.sleep(1)
            worker.kill()
            worker.wait()
        with _worker(module):
            assert result.get(timeout=RESULT_SECONDS_MAX) == "again"


@scenario
def groups_and_chains_of_tasks_are_done(address: Address) -> None:
    from celery import chain, group

    with _application(address) as module:
        added = group(module.total.s(number, number) for number in range(5))()
        assert added.get(timeout=RESULT_SECONDS_MAX) == [0, 2, 4, 6, 8]
        chained = chain(module.total.s(1, 2), module.total.s(3), module.total.s(4))()
        assert chained.get(timeout=RESULT_SECONDS_MAX) == 10


@scenario
def a_worker_is_inspected_and_told_what_to_do(address: Address) -> None:
    with _application(address) as module:
        name = f"{module.QUEUE}@here"
        inspected = module.app.control.inspect([name], timeout=5)
        queues = (inspected.active_queues() or {})[name]
        assert [queue["name"] for queue in queues] == [module.QUEUE]
        limit = {"task_name": "total", "rate_limit": "100/s"}
        (replies,) = module.app.control.broadcast(
            "rate_limit", limit, destination=[name], reply=True, timeout=5
        )
        assert "ok" in replies[name], replies
