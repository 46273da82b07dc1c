"""Where `make dist-test` looks for the Pythons that it is asked for."""

from pathlib import Path

import pytest

from tests.release.pythons import NoPython, find


def interpreter(path: Path, prints: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{prints}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PYENV_ROOT", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_a_python_is_found_on_the_path_of_pyenv_and_of_uv(home: Path) -> None:
    path = interpreter(home / "bin" / "python3.11", "echo 3.11")
    pyenv = interpreter(home / ".pyenv/versions/3.13.0/bin/python3.13", "echo 3.13")
    uv = home / ".local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/python3.12"
    interpreter(uv, "echo 3.12")
    assert find(["3.11", "3.12", "3.13"]) == {"3.11": path, "3.12": uv, "3.13": pyenv}


def test_a_python_that_refuses_to_run_is_passed_over(home: Path) -> None:
    interpreter(home / "bin" / "python3.13", "exit 127")
    pyenv = interpreter(home / ".pyenv/versions/3.13.0/bin/python3.13", "echo 3.13")
    assert find(["3.13"]) == {"3.13": pyenv}


def test_a_missing_python_is_an_error_that_names_those_found(home: Path) -> None:
    interpreter(home / "bin" / "python3.11", "echo 3.11")
    with pytest.raises(NoPython, match=r"no Python 3\.13 .*PYTHONS='3\.11'"):
        find(["3.11", "3.13"])
