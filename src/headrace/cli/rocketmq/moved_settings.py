"""The rest of a move: a broker on the new directory stores what its logs do not say.

It is started for this process alone, and refuses what any broker would refuse.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import closing

import uvloop

from headrace.client.admin.operations import call_operation
from headrace.client.client import Client
from headrace.client.sync import connect, run
from headrace.config.broker import BrokerConfig, load
from headrace.logtools.rocketmq.plan import MovePlan
from headrace.logtools.rocketmq.questions import Question, questions
from headrace.model.errors import ApiError, ErrorCode
from headrace.server.assembly import Server
from headrace.server.real_world import RealWorld
from headrace.terminal.failure import CommandError

_ANSWER_SECONDS_MAX = 600.0
_AGAIN_SECONDS = 0.05
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0",
    # Records keep their age: nothing expires before the operator's own broker starts.
    "log.retention.ms": "-1",
    "rocketmq.disk.max.used.percent": "100",
}


def store_settings(plan: MovePlan, directory: str, given: Mapping[str, str]) -> None:
    """Start a broker with these settings on the new directory, and have it store the rest.

    Raises CommandError, ApiError, ConfigError.
    """
    config, _ = load(flags={**_SETTINGS, **given, "log.dirs": directory})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        waiting = runner.run(_served(plan, config))
    planned = plan.delayed + plan.undecided
    if waiting != planned:
        text = f"{planned} waiting messages were planned, {waiting} are stored"
        raise CommandError(f"{text}: the store was changed meanwhile")


async def _served(plan: MovePlan, config: BrokerConfig) -> int:
    """Run the broker while it is asked; return how many waiting messages it has stored."""
    broken: list[Exception] = []
    server = Server(config, RealWorld(config), broken.append)
    await server.start()
    try:
        address = f"127.0.0.1:{server.listeners[0].port}"
        waiting = await asyncio.to_thread(_ask_all, plan, address)
    finally:
        await server.stop()
    if broken:
        raise broken[0]
    return waiting


def _ask_all(plan: MovePlan, address: str) -> int:
    waiting = 0
    with closing(connect(address, request_timeout_seconds=_ANSWER_SECONDS_MAX)) as client:
        for question in questions(plan):
            _ask(client, question)
            waiting += question.waiting
    return waiting


def _ask(client: Client, question: Question) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS_MAX
    while True:
        try:
            run(call_operation(client, question.operation, question.arguments))
            return
        except ApiError as error:
            if error.code not in _LOADING or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_SECONDS)  # the coordinator loads its offsets
