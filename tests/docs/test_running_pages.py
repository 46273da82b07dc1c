"""`make docs-test` notices what is wrong, and says where."""

from pathlib import Path

import pytest

from tests.docs.__main__ import pages
from tests.docs.blocks import PageError, read
from tests.docs.compare import missing
from tests.docs.page import run
from tests.docs.processes import ROOT

FINE = """\
```bash
echo key=1 > kept.txt
```

```python
kept = open("kept.txt").read()
```

<!-- docs-test: setup
echo hidden >> kept.txt
-->

```python
kept + open("kept.txt").read()
```

<!-- docs-test: output -->
```text
key=1
…
hidden
```

```console
$ cat kept.txt
key=1
hidden
```

<!-- docs-test: background until="ready" -->
```bash
echo ready; sleep 600
```

<!-- docs-test: run interrupt="waiting" -->
```bash
python -c 'import time; print("waiting"); time.sleep(600)'
```

<!-- docs-test: file server.properties -->
```properties
log.dirs=/var/lib/headrace
```

<!-- docs-test: shown because="it needs a cluster" -->
```bash
exit 7
```

<!-- docs-test: run exit=3 -->
    cat server.properties && exit 3
"""


def test_a_page_whose_blocks_hold_is_run_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("page.md", FINE) == []
    assert capsys.readouterr().out == "page.md: 8 run, 1 compared, 1 shown\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```bash\ntrue\nfalse\n```\n", "page.md:2: bash ended with status 1, not 0"),
        ("\n```python\nx = 1\n1 / 0\n```\n", 'File "page.md", line 4'),
        ("```python\nimport os; os._exit(1)\n```\n", "page.md:2: python did not end"),
        ("```console\n$ echo a\na\n$ echo b\nc\n```\n", "$ echo b\nnot printed: c\n    | b"),
        (
            "```bash\necho one\n```\n\n<!-- docs-test: output -->\n```text\ntwo\n```\n",
            "page.md:7: not printed: two",
        ),
        (
            '<!-- docs-test: background until="ready" timeout=9 -->\n```bash\necho no\n```\n',
            "did not print 'ready' in 9 s",
        ),
        ("<!-- docs-test: run timeout=0.2 -->\n```bash\nsleep 60\n```\n", "did not end in 0.2 s"),
        ("```properties\nlog.dirz=/data\n```\n", "no such key"),
        ("```json\n{\n```\n", "page.md:2: no json"),
        ("```rust\nfn\n```\n", "no way to run rust"),
        ("```\nwhat\n```\n", "page.md:2: the block has no language and no mark"),
        ("<!-- docs-test: shown -->\n```bash\nx\n```\n", 'page.md:1: shown needs because="…"'),
        ("<!-- docs-test: shwon -->\n```bash\nx\n```\n", "page.md:1: no action shwon"),
        ("<!-- docs-test: run slwo=1 -->\n```bash\nx\n```\n", "page.md:1: run takes no slwo"),
        ("<!-- docs-test: output -->\n\nNo block.\n", "page.md:1: no block follows this mark"),
        ("<!-- docs-test: page brokers -->\n", "page.md:1: no page can need brokers"),
    ],
)
def test_a_wrong_block_is_told_with_its_line_and_what_it_did(
    text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (report,) = run("page.md", text)
    assert told in report
    assert told in capsys.readouterr().out


def test_quick_leaves_out_slow_blocks_and_what_they_would_print() -> None:
    text = "<!-- docs-test: run slow=spark -->\n```bash\nfalse\n```\n\n"
    text += "<!-- docs-test: output -->\n```text\nwhat it printed\n```\n"
    assert run("page.md", text, left_out=frozenset({"slow"})) == []
    assert len(run("page.md", text)) == 2


@pytest.mark.parametrize(
    ("expected", "printed", "line"),
    [
        ("a  b", "  a b  ", None),
        ("a\nc", "a\nb\nc", None),
        ("c\na", "a\nb\nc", "a"),
        ("pid …, 3 files", "pid 71, 3 files", None),
        ("pid …, 3 files", "pid 71, 4 files", "pid …, 3 files"),
        ("1.5 MB", "2.5 MB", "1.5 MB"),
        ("", "anything", None),
    ],
)
def test_output_is_compared_line_by_line(expected: str, printed: str, line: str | None) -> None:
    assert missing(expected, printed) == line


def test_any_number_stands_for_any_where_the_mark_says_so() -> None:
    assert missing("1.5 MB in 3 files", "22 MB in 1 files", any_number=True) is None
    assert missing("1.5 MB", "2 kB", any_number=True) == "1.5 MB"


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_every_page_is_marked_or_can_be_run(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    try:
        page = read(name, path.read_text("utf-8"))
    except PageError as error:
        pytest.fail(str(error))
    known = {"bash", "sh", "console", "python", "sql", "json", "yaml", "properties"}
    run_by_language = [block for block in page.blocks if block.mark.action == "run"]
    assert [block.place for block in run_by_language if block.language not in known] == []
