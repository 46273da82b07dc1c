"""Hold the project's prose to plain technical English: first words, filler, commit subjects.

Reads `tools/language.toml`. Old findings are listed in `tools/language_old.txt` by their text, so a
file that moves brings no new ones; a finding that is not listed fails the lint. `--update` writes
the list again without what was mended: it only ever shrinks.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.syntax import statements

WORDS = Path("tools/language.toml")
OLD = Path("tools/language_old.txt")
HEADING = re.compile(r"^#{1,6} +(.*)")
FENCE = re.compile(r"^ *(```|~~~)")
MARKUP = re.compile(r"^[\s*_`>\-|]+")
KEY_CHARACTERS = 80
TEST = re.compile(r"^test_+")


class Finding(NamedTuple):
    """A breach of the rules, at a line of a file."""

    path: str
    line: int
    text: str
    """The rule and the words found."""

    @property
    def key(self) -> str:
        """What the list of old findings names it by: its text, without its place."""
        return self.text[:KEY_CHARACTERS].rstrip()


class Rules(NamedTuple):
    """The word list of `tools/language.toml`, compiled."""

    riddles: re.Pattern[str]
    """First words that hide the subject of a sentence."""
    filler: re.Pattern[str]
    """Phrases that say nothing, or that the field does not use."""
    subject_max: int
    since: str
    """The last commit whose subject is not looked at."""
    known: tuple[str, ...]
    """Later commits whose subjects are too long and stay so, by id."""
    skip: tuple[str, ...]
    """Beginnings of paths whose text is not the project's prose."""


def rules() -> Rules:
    """Read the word list."""
    found = tomllib.loads(WORDS.read_text())
    # Either case at the start of a sentence; no more than that, as `is None` is code.
    phrases = "|".join(
        f"[{phrase[0]}{phrase[0].upper()}]{phrase[1:]}" if phrase[0].isalpha() else phrase
        for phrase in found["filler"]
    )
    return Rules(
        re.compile(rf"({'|'.join(found['riddles'])})\b", re.IGNORECASE),
        re.compile(rf"\b({phrases})\b"),
        found["subject_characters_max"],
        found["subjects_since"],
        tuple(found["subjects_known"]),
        tuple(found["skip"]),
    )


def tracked(skip: tuple[str, ...]) -> Iterator[Path]:
    """List the Python and Markdown files of the tree, untracked ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    for name in sorted(set(names)):
        if not name.startswith(skip) and Path(name).is_file():
            yield Path(name)


def python_findings(path: str, text: str, held: Rules) -> Iterator[Finding]:
    """Find riddles that begin docstrings and test names, and filler in any text of a file."""
    tree = ast.parse(text)
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and TEST.match(node.name):
            claim = TEST.sub("", node.name).replace("_", " ")
            if held.riddles.match(claim):
                yield Finding(path, node.lineno, f"test name: {node.name}")
    for line, said in _docstrings(tree):
        if held.riddles.match(said.strip()):
            yield Finding(path, line, f"docstring: {said.strip().splitlines()[0]}")
    # Tokens take most of the time, and few files have such a phrase anywhere.
    for line, said in _texts(text) if held.filler.search(text) else ():
        for phrase in held.filler.findall(said):
            yield Finding(path, line, f"filler {phrase.lower()!r}: {said.strip()}")


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give each text that documents a module, class, function or the name above it."""
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for child in node.body:
                match child:
                    case ast.Expr(value=ast.Constant(value=str(said))):
                        yield child.lineno, said


def _texts(text: str) -> Iterator[tuple[int, str]]:
    """Give comments and string literals, line by line."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            for number, line in enumerate(token.string.splitlines()):
                yield token.start[0] + number, line


def markdown_findings(path: str, text: str, held: Rules) -> Iterator[Finding]:
    """Find riddles that begin headings and paragraphs, and filler, outside of code blocks."""
    fenced, before = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            heading = HEADING.match(line)
            begins = heading or not before.strip() or line.lstrip().startswith(("- ", "* ", "|"))
            said = heading[1] if heading else MARKUP.sub("", line)
            if begins and held.riddles.match(said):
                yield Finding(path, number, f"{'heading' if heading else 'sentence'}: {said}")
            for phrase in held.filler.findall(line):
                yield Finding(path, number, f"filler {phrase.lower()!r}: {line.strip()}")
        before = line


def subject_findings(held: Rules) -> Iterator[Finding]:
    """Find commit subjects since `held.since` that are too long; none without a history."""
    command = ["git", "log", "--no-merges", "--format=%H %s", f"{held.since}..HEAD"]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    for line in told.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        # An empty tuple never matches. Ids may be abbreviated, as in `git log --oneline`.
        if len(subject) > held.subject_max and not commit.startswith(held.known):
            yield Finding(
                f"commit {commit[:8]}", 1, f"subject of {len(subject)} characters: {subject}"
            )


def all_findings(held: Rules) -> Iterator[Finding]:
    """Find every breach in the tree and in the history."""
    for path in tracked(held.skip):
        judge = python_findings if path.suffix == ".py" else markdown_findings
        yield from judge(str(path), path.read_text(), held)
    yield from subject_findings(held)


def main(arguments: list[str]) -> int:
    found = list(all_findings(rules()))
    old = set(OLD.read_text().splitlines()) if OLD.exists() else None
    if arguments == ["--update"]:
        keys = {finding.key for finding in found}
        kept = keys if old is None else keys & old
        OLD.write_text("".join(f"{key}\n" for key in sorted(kept)))
        return 0
    new = [finding for finding in found if finding.key not in (old or set())]
    mended = (old or set()) - {finding.key for finding in found}
    for finding in new:
        print(f"{finding.path}:{finding.line}: {finding.text}")
    print(f"language: {len(new)} new, {len(found) - len(new)} old, {len(mended)} mended since")
    return bool(new)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
