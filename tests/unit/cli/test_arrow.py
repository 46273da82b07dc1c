"""`headrace arrow warm`, and what the first call of `headrace.arrow` says."""

from pathlib import Path

import pytest

import headrace.arrow
from headrace.cli.main import run as command
from headrace.config.installing import install_command
from headrace.kernels import choose, compile_cache


def test_the_room_shows_what_can_be_called() -> None:
    assert [name for name in dir(headrace.arrow) if not name.startswith("_")] == ["open"]
    assert callable(headrace.arrow.open)


@pytest.mark.timeout(900)  # compiles for minutes where nothing is kept and others work, too
def test_every_kernel_is_compiled_beforehand(capsys: pytest.CaptureFixture[str]) -> None:
    for chosen in vars(choose).values():  # whatever an earlier test has had chosen
        if hasattr(chosen, "cache_clear"):
            chosen.cache_clear()
    assert command(["arrow", "warm"]) == 0
    assert capsys.readouterr().out.startswith("the kernels of headrace.arrow are ready (")
    from headrace.kernels import compact_numba, decode_batches, decode_numba, encode_numba

    for kernel in (
        decode_numba.decode_records,
        decode_batches.decode_batches,
        compact_numba.index_records,
        compact_numba.filter_records,
        encode_numba.encode_records,
    ):
        assert kernel.signatures, kernel
    assert len(encode_numba.divide_rows.signatures) >= 2, "with partitions and without"


def test_nothing_is_compiled_where_plain_python_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_NUMBA", "0")
    assert command(["arrow", "warm"]) == 1
    assert "HEADRACE_NUMBA=0" in capsys.readouterr().err


def test_what_is_missing_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command(["arrow", "warm"]) == 1
    assert capsys.readouterr().err.startswith(
        "headrace: pyarrow is missing: " + install_command("pyarrow", "numba", "numpy")
    )


def test_compiling_is_said_once_where_nothing_is_kept_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for kept, said in ((False, 1), (True, 0)):
        if kept:
            (tmp_path / "kernels").mkdir()
            (tmp_path / "kernels" / "decode_numba.decode_records-1.py311.nbi").touch()
        monkeypatch.setattr(compile_cache, "_told", set())
        compile_cache.tell_compiling()
        compile_cache.tell_compiling()
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == said
        assert all("headrace arrow warm" in line and str(tmp_path) in line for line in lines)


def test_who_asks_for_it_is_not_told_to_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile_cache, "_told", set())
    monkeypatch.setattr("headrace.arrow.warm.warm", lambda: 0.0)
    assert command(["arrow", "warm"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"is kept in {tmp_path}")
