"""`headrace consume` where records are damaged on the broker's disk."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import run
from headrace.client.consumer.consumer import Consumer
from tests.crash.test_damaged_files import fill, value_at
from tests.support.processes.process import BrokerProcess

DAMAGED_AT = 40


@pytest.mark.parametrize("group", [False, True], ids=["alone", "as a member"])
def test_consume_says_what_cannot_be_read_and_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    group: bool,
) -> None:
    asked = 0
    fetch = Consumer._fetch

    async def counted(self: Consumer, *words: Any) -> Any:
        nonlocal asked
        asked += 1
        return await fetch(self, *words)

    with BrokerProcess(tmp_path) as broker:
        fill(broker, ["t"])
        broker.stop()
        marked = value_at("t", DAMAGED_AT)
        for segment in (tmp_path / "log" / "t-0").glob("*.log"):
            content = segment.read_bytes()
            segment.write_bytes(content.replace(marked, b"?" + marked[1:]))
        broker.start()
        monkeypatch.setattr(Consumer, "_fetch", counted)
        words = ["consume", "t", "-b", broker.bootstrap, "--request-timeout", "3"]
        words += ["-g", "g", "--from-beginning"] if group else ["-o", "start"]
        code = run(words)
        captured = capfdbinary.readouterr()
    said = captured.err.decode()
    assert code == 1
    assert f"t-0 cannot be read at offset {DAMAGED_AT} [KAFKA_STORAGE_ERROR]" in said
    assert said.count("cannot be read") == 1
    assert f"t-0: the records at offset {DAMAGED_AT} " in said
    assert "--skip-damaged" in said
    printed = captured.out.splitlines()
    assert printed == [value_at("t", offset) for offset in range(DAMAGED_AT)]
    assert asked < 60
