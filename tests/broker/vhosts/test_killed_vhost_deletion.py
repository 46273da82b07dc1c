"""A single broker that is killed inside the deletion of a virtual host."""

import asyncio
import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.sync import connect, run
from headrace.testing import BrokerThread
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change

CONFIG = {"listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0"}


def ask(broker: BrokerThread, operation: str, **fields: Any) -> Any:
    """Carry out an operation of an administrator."""
    with connect(broker.bootstrap) as client:
        return run(ask_amqp(client, operation, **fields))


def test_vhost_created_again_after_a_killed_deletion_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed broker's files are those at the moment when declarations are to be deleted."""
    before, killed = str(tmp_path / "data"), str(tmp_path / "killed")
    reached, may_go_on = threading.Event(), threading.Event()
    append = DeclarationLog.append

    async def held(self: DeclarationLog, changes: Mapping[bytes, Change]) -> None:
        if any(change.value is None for change in changes.values()):
            reached.set()
            await asyncio.to_thread(may_go_on.wait, 10)
        await append(self, changes)

    with BrokerThread(CONFIG, directory=before) as broker, ThreadPoolExecutor(1) as threads:
        ask(broker, "vhost.create", name="v")
        ask(broker, "queue.declare", vhost="v", name="q", durable=True)
        monkeypatch.setattr(DeclarationLog, "append", held)
        deleting = threads.submit(ask, broker, "vhost.delete", name="v")
        assert reached.wait(10)
        shutil.copytree(before, killed, ignore=shutil.ignore_patterns("*.sock"))
        may_go_on.set()
        deleting.result(10)
        assert [row["name"] for row in ask(broker, "vhost.list")] == ["/"]
    with BrokerThread(CONFIG, directory=killed) as broker:
        if "v" in [row["name"] for row in ask(broker, "vhost.list")]:
            ask(broker, "vhost.delete", name="v")
        ask(broker, "vhost.create", name="v")
        assert ask(broker, "queue.list", vhost="v") == []
