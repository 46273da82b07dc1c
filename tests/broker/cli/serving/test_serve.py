"""`headrace serve`: what it says once it listens, and what a start that fails says and leaves."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.cli.broker.serve import ServeOptions
from headrace.cli.broker.start import plain_words
from headrace.cli.main import run as command
from headrace.config.broker import load
from headrace.model.errors import ConfigError
from headrace.terminal.failure import UsageError
from headrace.testing import BrokerThread
from tests.support.processes.process import free_port

WAIT_SECONDS_MAX = 60.0


@contextmanager
def serving(*words: str) -> Iterator[tuple[int, str]]:
    """The process of a `serve` and what it says until it has said all."""
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "serve", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline()]
            while "ends it" not in lines[-1] and lines[-1]:
                lines.append(process.stdout.readline())
            yield process.pid, "".join(lines)
        finally:
            process.terminate()
            process.wait(WAIT_SECONDS_MAX)


def test_a_start_says_where_its_data_are_what_clients_are_told_and_how_it_ends(
    tmp_path: Path,
) -> None:
    port, data = free_port(), tmp_path / "data"
    with serving("--port", str(port), "--data", str(data)) as (pid, said):
        assert f"listens on PLAINTEXT://127.0.0.1:{port}\n" in said
        assert f"advertised address: PLAINTEXT://127.0.0.1:{port}\n" in said
        assert f"data in: {data}\n" in said
        assert f"process: {pid}, noted in {data}/headrace.pid\n" in said
        assert "log on: standard error\n" in said
        assert "Ctrl-C ends it.\n" in said
        again = subprocess.run(
            [sys.executable, "-m", "headrace", "serve", "--port", "0", "--data", str(data)],
            capture_output=True, text=True, timeout=WAIT_SECONDS_MAX,
        )  # fmt: skip
        assert (again.returncode, again.stdout) == (2, "")
        assert again.stderr == (
            f"headrace: log.dirs={data}: in use by process {pid}: stop that process (headrace stop"
            f" --data {data}) or use another directory\n"
        )


def test_a_start_in_the_background_says_its_log_file_and_how_it_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "-d", "--port", "0", "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=WAIT_SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    path = tmp_path / "headrace.pid"
    assert f"log on: {tmp_path}/headrace.log\n" in done.stdout
    assert f"headrace stop --pid-file {path} ends it.\n" in done.stdout
    assert command(["stop", "--pid-file", str(path)]) == 0


def test_who_listens_everywhere_is_told_which_name_clients_get(tmp_path: Path) -> None:
    # Announced on all interfaces, bound on one: no test opens a door to other machines.
    script = (
        "import sys; from headrace.config import listeners; from headrace.cli.main import main;"
        "listeners.Listener.everywhere = property(lambda listener: True); main(sys.argv[1:])"
    )
    words = ["serve", "--listeners", "PLAINTEXT://127.0.0.1:0", "--data", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.terminate()
    assert re.fullmatch(
        rf"advertised address: PLAINTEXT://{os.uname().nodename}:\d+ \((\S+) is this machine's host"
        r" name; if clients cannot resolve it, set another with --advertised-listeners"
        r" PLAINTEXT://HOST:PORT\)\n",
        lines[-1],
    )


def test_a_start_that_fails_leaves_no_directory_that_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with BrokerThread() as broker:
        words = ["serve", "--port", str(broker.port), "--data"]
        made, there = tmp_path / "made", tmp_path / "there"
        there.mkdir()
        (there / "mine").write_text("kept")
        for path in (made, there):
            assert command([*words, str(path)]) == 2
            assert "address already in use" in capsys.readouterr().err
        assert not made.exists()
        assert (there / "mine").read_text() == "kept"
        metrics = ["--metrics", f"127.0.0.1:{broker.port}"]
        assert command(["serve", "--port", "0", *metrics, "--data", str(made)]) == 2
        assert not made.exists()


def test_a_directory_that_another_start_took_meanwhile_stays(tmp_path: Path) -> None:
    with BrokerThread(directory=str(tmp_path / "data")) as broker:
        process = subprocess.run(
            [sys.executable, "-m", "headrace", "serve", "--port", "0", "--data", broker.directory],
            capture_output=True, text=True, timeout=WAIT_SECONDS_MAX,
        )  # fmt: skip
        assert f"in use by process {os.getpid()}" in process.stderr
        assert Path(broker.directory).exists()


def test_metrics_open_to_other_machines_need_the_same_leave_as_listeners() -> None:
    for address in ("0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464", "example:9464"):
        with pytest.raises(ConfigError, match=r"metrics\.listener=.*open to other machines"):
            load(flags={"metrics.listener": address})
        load(flags={"metrics.listener": address, "insecure.listeners": "true"})
    for address in ("127.0.0.1:9464", "localhost:9464", "[::1]:9464", ":9464"):
        load(flags={"metrics.listener": address})


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--port", "9093"], {"listeners": "PLAINTEXT://127.0.0.1:9093"}),
        (["--port=0"], {"listeners": "PLAINTEXT://127.0.0.1:0"}),
        (["--port", "65536"], None),
        (["--port", "x"], None),
        (["--port"], None),
        (["--port", "1", "--listeners", "PLAINTEXT://127.0.0.1:0"], None),
    ],
)
def test_a_port_is_one_of_this_machine(words: list[str], flags: dict[str, str] | None) -> None:
    plain = plain_words(["serve", *words])
    assert (None if plain is None else plain.flags) == flags


def test_a_port_beside_listeners_or_beyond_all_ports_is_refused() -> None:
    assert ServeOptions(port=7).by_key() == {"listeners": "PLAINTEXT://127.0.0.1:7"}
    for options in (ServeOptions(port=7, listeners="PLAINTEXT://h:1"), ServeOptions(port=65_536)):
        with pytest.raises(UsageError, match="--port"):
            options.by_key()


def test_a_log_file_of_a_start_in_the_foreground_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(["serve", "--log-file", "x"]) == 2
    assert "--log-file needs --daemon" in capsys.readouterr().err
