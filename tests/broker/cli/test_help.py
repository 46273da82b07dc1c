"""What `--help` says, and what flags are: for all verbs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.cli.command_tree import app
from headrace.cli.main import run as command


def verbs(of: Any = app, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All verbs with the words that call them."""
    for name in of:
        if name.startswith("-"):
            continue
        found = of[name]
        words = (*before, found.name[0])
        if found.default_command is None:
            yield from verbs(found, words)
        else:
            yield words, found


VERBS = dict(verbs())


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_verb_has_an_example_and_a_text_for_each_flag(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*words, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"headrace {' '.join(words)}" in said.split("For example: ")[1]
    first = VERBS[words].help.split("\n\n")[0]
    assert first.rstrip().endswith("."), "a sentence, not the first line of one"
    for argument in VERBS[words].assemble_argument_collection():
        flags = [name for name in argument.names if name.startswith("-")]
        if flags and argument.show and argument.parameter.help is not None:
            assert argument.parameter.help.rstrip().endswith((".", ")")), flags


def test_each_family_of_verbs_says_what_each_of_them_is_for() -> None:
    """In processes of their own: here the verbs' modules are imported, and say it themselves."""
    families = sorted({words[:at] for words in VERBS for at in range(len(words))})
    asked = "import sys; from headrace.cli.main import run; run(sys.argv[1:])"
    for family in families:
        command = [sys.executable, "-c", asked, *family, "--help"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        listed = said[said.index("Commands") :].split("\n╰")[0]
        assert re.findall(r"^│ (\S+) *│$", listed, re.MULTILINE) == []


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_what_is_no_name_of_a_thing_is_a_flag(words: tuple[str, ...]) -> None:
    for argument in VERBS[words].assemble_argument_collection():
        named = argument.names == ("BROKER",)  # a broker's id is its name
        if argument.index is not None and argument.hint in {bool, int, float} and not named:
            pytest.fail(f"{argument.names} can be given by its place")


@pytest.mark.parametrize(
    "words", [words for words in VERBS if words != ("completion",)], ids=" ".join
)
def test_a_wrong_flag_is_one_line_with_the_way_to_the_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*words, "--nonsense"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--nonsense" in said
    assert said.endswith(f"see: headrace {' '.join(words)} --help\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("group", "list", "extra"), "too many words: extra; see: headrace group list --help"),
        (("topic", "foo"), 'Unknown command "foo"; see: headrace topic --help'),
        (("foo",), 'Unknown command "foo"; see: headrace --help'),
        (("cluster", "partitons"), 'Did you mean "partitions"?; see: headrace cluster --help'),
        (("serve", "--prot", "1"), "Did you mean --port?; see: headrace serve --help"),
        (("group", "seek", "g"), "--to is missing; see: headrace group seek --help"),
        (("log", "repair"), "PATH is missing; see: headrace log repair --help"),
        (("log", "repair", "d", "true"), "too many words: true; see: headrace log repair --help"),
        (("consume", "t", "-o"), "-o is missing; see: headrace consume --help"),
    ],
)
def test_a_slip_is_named_in_one_whole_sentence(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("headrace: ")
    assert said.endswith(f"{line}\n")
    assert said.count("\n") == 1
