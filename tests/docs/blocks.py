"""The blocks of a page and the marks that say what is done with them.

A mark is an HTML comment before a block, so that readers do not see it:

    <!-- docs-test: ACTION key=value … -->

| action | |
|---|---|
| `run` | run it, by its language; what a block without a mark is, too |
| `background until="text"` | start it, go on when it has printed the text, end it with the page |
| `output` | what the block before prints: its lines, in order, `…` for anything; `numbers=any` |
| `file name` | write it to that file: later blocks use it |
| `shown because="why"` | not run; the reason is asked for |

`slow=spark` (or any other word) puts a block into a set that `--quick` leaves out, `exit=1` expects
that status, `interrupt="text"` presses Ctrl-C once the text was printed, `timeout=120` are seconds,
`language=python` names what an indented block is, `replace="/data/=>$PWD/"` runs it with another
text in place of a path of the reader's. `extra=arrow` needs an extra: `--base` leaves it out, and
the slow sets. Two more marks stand by themselves:

    <!-- docs-test: page broker -->           what the page needs: `broker`, `cluster`, `zookeeper`,
                                              `checkout` (a copy of this tree to run in)
    <!-- docs-test: setup                     commands that readers are not shown
    echo one | headrace produce orders
    -->
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

OPENING, CLOSING = "<!-- docs-test:", "-->"
OPTIONS = {
    "run": {"exit", "interrupt", "file"},
    "background": {"until"},
    "output": {"numbers"},
    "file": set(),
    "shown": {"because"},
    "setup": set(),
    "page": set(),
}
"""What each action takes besides `COMMON`."""
COMMON = {"slow", "extra", "timeout", "language", "replace"}
REQUIRED = {"background": "until", "shown": "because"}
SERVICES = {"broker", "cluster", "zookeeper", "checkout"}


class PageError(Exception):
    """A mark or a block that cannot be understood; begins with file:line."""


class Mark(NamedTuple):
    """What is done with the block that follows."""

    line: int
    action: str = "run"
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    text: str = ""
    """The lines below the first, of `setup`."""

    @property
    def timeout_s(self) -> float:
        return float(self.options.get("timeout", "120"))


class Block(NamedTuple):
    """A block of code, or hidden commands."""

    page: str
    line: int
    """Of its first line of code, from 1."""
    language: str
    text: str
    mark: Mark

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


class Page(NamedTuple):
    """A page's blocks in order, and what it needs running."""

    name: str
    services: frozenset[str]
    blocks: tuple[Block, ...]


def read(name: str, text: str) -> Page:
    """Return the blocks of a page of Markdown. PageError."""
    services: set[str] = set()
    blocks = []
    waiting: Mark | None = None
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            for mark in _marks(name, token):
                if waiting is not None:
                    raise PageError(f"{name}:{waiting.line}: no block follows this mark")
                if mark.action == "page":
                    services |= set(mark.words)
                elif mark.action == "setup":
                    blocks.append(Block(name, mark.line + 1, _hidden(mark), mark.text, mark))
                else:
                    waiting = mark
        elif token.type in {"fence", "code_block"}:
            mark = waiting or Mark(_line(token))
            blocks.append(_block(name, token, mark))
            waiting = None
        elif waiting is not None and token.type in {"paragraph_open", "heading_open"}:
            raise PageError(f"{name}:{waiting.line}: no block follows this mark")
    if waiting is not None:
        raise PageError(f"{name}:{waiting.line}: no block follows this mark")
    if unknown := services - SERVICES:
        raise PageError(f"{name}:1: no page can need {', '.join(sorted(unknown))}")
    return Page(name, frozenset(services), tuple(blocks))


def _hidden(mark: Mark) -> str:
    return mark.options.get("language", "bash")


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 1


def _block(name: str, token: Token, mark: Mark) -> Block:
    fenced = token.type == "fence"
    first = _line(token) + fenced
    given = token.info.split()[0] if fenced and token.info.strip() else ""
    language = mark.options.get("language") or given or ("" if fenced else "bash")
    if not language and mark.action == "run":
        raise PageError(f"{name}:{first}: the block has no language and no mark")
    return Block(name, first, language, token.content, mark)


def _marks(name: str, token: Token) -> Iterator[Mark]:
    """Yield the marks of one block of HTML."""
    at = token.content.find(OPENING)
    while at >= 0:
        end = token.content.find(CLOSING, at)
        line = _line(token) + token.content.count("\n", 0, at)
        if end < 0:
            raise PageError(f"{name}:{line}: the mark has no end")
        yield _mark(name, line, token.content[at + len(OPENING) : end])
        at = token.content.find(OPENING, end)


def _mark(name: str, line: int, text: str) -> Mark:
    head, _, below = text.strip().partition("\n")
    try:
        action, *words = shlex.split(head)
    except ValueError as error:
        raise PageError(f"{name}:{line}: {error}: {head}") from None
    if action not in OPTIONS:
        raise PageError(f"{name}:{line}: no action {action}: one of {', '.join(OPTIONS)}")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    if unknown := options.keys() - OPTIONS[action] - COMMON:
        raise PageError(f"{name}:{line}: {action} takes no {', '.join(sorted(unknown))}")
    needed = REQUIRED.get(action)
    if needed and not options.get(needed):
        raise PageError(f'{name}:{line}: {action} needs {needed}="…"')
    plain = tuple(word for word in words if "=" not in word)
    if (action == "file") != (len(plain) == 1) and action != "page":
        raise PageError(f"{name}:{line}: {action} {' '.join(plain)}: only file takes one name")
    return Mark(line, action, plain, options, below)
