"""`headrace dev --processes`: what it needs, and what it refuses."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.cli.main import run as command
from headrace.spark.errors import SourceError
from headrace.spark.sessions import java


def spec_of(directory: Path) -> SimpleNamespace:
    return SimpleNamespace(origin=str(directory / "__init__.py"))


@pytest.mark.parametrize("missing", ["pyspark", "jars", "java"])
def test_error_says_how_to_get_a_zookeeper_in_one_line(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "jars").mkdir()
    if missing == "java":
        (tmp_path / "jars" / "zookeeper-3.9.5.jar").touch()
    found = None if missing == "pyspark" else spec_of(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)

    def no_java() -> None:
        raise SourceError("there is no Java")

    monkeypatch.setattr(java, "find_java", no_java)
    assert command(["dev", "--processes", "3", "--data", str(tmp_path / "data")]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "docker run -p 2181:2181 zookeeper:3.9" in told
    assert "headrace dev --brokers 3 needs no ZooKeeper" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--processes", "0"], "--processes 0: must be 1 to 9"),
        (["--processes", "10"], "--processes 10: must be 1 to 9"),
        (["--processes", "2", "--brokers", "2"], "--processes cannot be combined with --brokers"),
        (["--processes", "2", "--amqp-port", "65535"], "--amqp-port 65535: must be 1 to 65534"),
        (["--processes", "2", "--set", "broker.id=5"], "--set broker.id: differs for each broker"),
    ],
)
def test_words_that_make_no_sense_together_are_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["dev", *words, "--data", str(tmp_path / "data")]) == 2
    assert told in capsys.readouterr().err
