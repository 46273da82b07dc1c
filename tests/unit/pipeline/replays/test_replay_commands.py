"""`headrace pipeline replay --apply | --discard | --undo` and `diff`, on replays that are built."""

import json
import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.cli.main import run as command
from headrace.pipeline.commands.diff_lines import decision_line
from headrace.pipeline.commands.projects import given_words
from headrace.pipeline.replays.replay_store import ReplayStore
from tests.support.processes.cli_kit import SCHEMAS, check
from tests.support.spark.replays import NEW, OLD, Shop

TOML = 'name = "shop"\nstorage = "data"\n[profile.prod]\n'
FIRST = [0, 2, 4, 6]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A project whose flow `orders` has written eight rows, and its replay r1 of the first day."""
    (tmp_path / "pipeline.toml").write_text(TOML)
    found = Shop(tmp_path / "data")
    found.storage.mkdir()
    found.batch(0, [0, 1, 2, 3])
    found.batch(1, [4, 5, 6, 7])
    found.build([*FIRST, 8])
    return found


def said(shop: Shop, *words: str) -> int:
    verb, *rest = words
    return command(["pipeline", verb, "orders", *rest, "-d", str(shop.storage.parent)])


def test_apply_and_undo_name_version_and_days(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(shop, "replay", "--apply", "r1") == 0
    version = DeltaTable(str(shop.live.path)).version()
    out = capsys.readouterr().out
    assert re.fullmatch(
        f"table: day 1970-01-01 is r1's as of version {version}; rows of later batches stay; undo: "
        rf"headrace pipeline replay orders -d {shop.storage.parent} --undo r1 "
        r"\(until 20\d\d-\d\d-\d\d\)\n",
        out,
    )
    assert shop.rows()[0] == NEW
    assert said(shop, "replay", "--undo", "r1") == 0
    assert capsys.readouterr().out == (
        "table: day 1970-01-01 is as before r1; rows of later batches stay\n"
    )
    assert shop.rows()[0] == OLD
    assert said(shop, "replay", "--undo", "r1") == 0
    assert capsys.readouterr().err == "r1 is undone already: nothing was changed\n"
    assert said(shop, "replay", "--discard", "r1") == 0
    assert capsys.readouterr().out == "table: r1 is discarded; the table is unchanged\n"


def test_follow_up_commands_name_the_project_as_the_user_did(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that is copied works: without -d in the directory, with the profile as given."""
    monkeypatch.chdir(shop.storage.parent)
    words = ["pipeline", "replay", "orders", "-p", "prod", "--apply", "r1"]
    assert command(words) == 0
    out = capsys.readouterr().out
    assert "undo: headrace pipeline replay orders -p prod --undo r1 (until" in out
    assert given_words(Path("my shop"), "prod") == " -d 'my shop' -p prod"
    assert given_words(Path(), None) == given_words(Path("."), None) == ""
    built = ReplayStore(shop.storage).load("r1")
    assert decision_line(built, " -d shop -p prod") == (
        "nothing is visible yet: headrace pipeline replay orders -d shop -p prod --apply r1 | "
        "--discard r1"
    )


def test_diff_prints_rows_and_columns(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(shop, "diff", "r1") == 0
    version = DeltaTable(str(shop.live.path)).version()
    assert capsys.readouterr().out.splitlines() == [
        f"table@r1 against table (version {version}, day 1970-01-01), by partition, offset",
        "  rows           4 → 5   1 added, 0 gone, 4 changed, 0 the same",
        "  value          4 changed (100 %)   e.g. partition=0, offset=0  old → new",
        "  key            0 changed",
        "  timestamp      0 changed",
        "  timestamp_day  0 changed",
        "  added: e.g. partition=0, offset=8",
    ]


def test_diff_without_a_key_and_with_ignored_columns(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(shop, "diff", "r1", "--ignore", "offset", "--ignore", "value") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("day 1970-01-01), as rows without a key")
    assert lines[1] == "  rows  4 → 5   1 added, 0 gone, 4 the same"
    assert said(shop, "diff", "r1", "--on", "offset", "--tolerance", "partition=1") == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("by offset")


def test_diff_with_exit_code_tells_scripts_apart(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(shop, "diff", "r1", "--exit-code") == 10
    shop.build(FIRST)
    assert said(shop, "diff", "r2", "--exit-code", "--ignore", "value") == 0
    capsys.readouterr()


def test_json_is_as_its_schemas_say(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    for words, verb in ((("diff", "r1"), "diff"), (("replay", "--apply", "r1"), "replay")):
        assert said(shop, *words, "--json") == 0
        answer = json.loads(capsys.readouterr().out)
        check(json.loads((SCHEMAS / f"pipeline-{verb}.json").read_text()), answer)
        assert answer["replay"] == "r1"
    assert (answer["state"], answer["diff"]["changed"]) == ("applied", 4)
    assert answer["days"] == {"from": "1970-01-01", "to": "1970-01-02"}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("replay", "--apply", "r9"), 4, "there is no replay r9 of orders; there are: r1"),
        (("diff", "r9"), 4, "there is no replay r9 of orders; there are: r1"),
        (("diff", "r1", "--on", "nam"), 2, "on: there is no column nam in"),
        (("diff", "r1", "--tolerance", "offset"), 2, "--tolerance offset: must be as"),
        (("diff", "r1", "--tolerance", "offset=-1"), 2, "must be as amount=0.001"),
        (("replay", "--apply", "r1", "--undo", "r1"), 2, "--apply and --undo cannot be combined"),
        (("replay", "--apply", "r1", "--from", "2026-11-24"), 2, "belong to a new replay"),
        (("replay", "--from", "today", "--to", "2026-11-24"), 2, "--from today: must be a day"),
        (("replay", "--slack", "soon"), 2, "--slack soon: must be as 2h"),
        (("replay", "--undo", "r1"), 1, "r1 is diffed: only an applied replay is undone"),
    ],
)
def test_errors_have_one_line_and_their_exit_code(
    shop: Shop, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, text: str
) -> None:
    assert said(shop, *words) == code
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1


def test_another_flows_replay_is_not_found(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pipeline", "replay", "large", "--apply", "r1", "-d", str(shop.storage.parent)]
    assert command(words) == 4
    assert "there is no replay r1 of large" in capsys.readouterr().err
    assert shop.rows()[0] == OLD


def test_outdated_comparison_has_an_exit_code_of_its_own(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    DeltaTable(str(shop.live.path)).delete('"offset" = 2')
    assert said(shop, "replay", "--apply", "r1") == 10
    assert "replaced or deleted rows" in capsys.readouterr().err
    assert shop.rows()[0] == OLD
