"""What people write at the command line, and the lines they get back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.broker import serve as serving
from headrace.cli.broker.start import plain_words
from headrace.cli.command_tree import app
from headrace.cli.main import run
from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.client.transport.port import Address, CannotConnect
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.record import Record
from headrace.terminal.broker_options import BrokerOptions, pairs
from headrace.terminal.failure import CommandError, UsageError, line_of, not_found
from headrace.terminal.input_lines import LineParser, parse_headers
from headrace.terminal.offset_positions import Place, parse_place
from headrace.terminal.output import print_table
from headrace.terminal.record_formats import json_formatter, text_formatter, unescape

WHERE = TopicPartition("t", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Place("time", EARLIEST)),
        ("Earliest", Place("time", EARLIEST)),
        ("end", Place("time", LATEST)),
        ("42", Place("offset", 42)),
        ("-10", Place("before_end", 10)),
        ("+5", Place("ahead", 5)),
        ("@1700000000000", Place("time", 1700000000000)),
        ("@2026-11-20T12:00:00+00:00", Place("time", 1795176000000)),
        ("@2026-11-20T12:00:00Z", Place("time", 1795176000000)),
    ],
)
def test_a_place_is_read(text: str, expected: Place) -> None:
    assert parse_place(text, "--to") == expected


@pytest.mark.parametrize("text", ["", "middle", "--5", "1e3", "@yesterday", "@", "٣"])
def test_what_is_no_place_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_place(text, "--to")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("a=1",), {"a": "1"}),
        (("a=1,b=2", "c=3"), {"a": "1", "b": "2", "c": "3"}),
        (("cleanup.policy=compact,delete,a=1",), {"cleanup.policy": "compact,delete", "a": "1"}),
        (("a==",), {"a": "="}),
    ],
)
def test_pairs_are_read(texts: tuple[str, ...], expected: dict[str, str]) -> None:
    assert pairs("-c", texts) == expected


@pytest.mark.parametrize("text", ["a", "=1", ",a=1"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="key=value"):
        pairs("-c", (text,))


def test_bootstrap_is_taken_as_rpk_takes_it() -> None:
    client = BrokerOptions(settings=("brokers=h:1",)).client()
    assert client.bootstrap == [Address("h", 1)]
    for wrong in ("linger.ms=5", "brokers"):
        with pytest.raises(UsageError, match="only brokers"):
            BrokerOptions(settings=(wrong,)).client()
    with pytest.raises(UsageError, match="host:port"):
        BrokerOptions(bootstrap="h:p").client()


@pytest.mark.parametrize(
    ("parser", "line", "key", "value"),
    [
        (LineParser(), b"a:b", None, b"a:b"),
        (LineParser(key=b"k"), b"a", b"k", b"a"),
        (LineParser(separator=b":"), b"a:b:c", b"a", b"b:c"),
        (LineParser(separator=b"::"), b"a::b", b"a", b"b"),
        (LineParser(separator=b":"), b":", b"", b""),
        (LineParser(separator=b":", null_marker=b"NULL"), b"NULL:NULL", None, None),
        (LineParser(json=True), b'{"key":"k","value":"v"}', b"k", b"v"),
        (LineParser(json=True), b'{"value":{"a":1}}', None, b'{"a":1}'),
        (LineParser(json=True), b'{"value_base64":"/w=="}', None, b"\xff"),
    ],
)
def test_a_line_becomes_a_record(
    parser: LineParser, line: bytes, key: bytes | None, value: bytes | None
) -> None:
    assert parser.parse(line, 1)[:2] == (value, key)


@pytest.mark.parametrize(
    ("parser", "line"),
    [
        (LineParser(separator=b":"), b"nothing"),
        (LineParser(json=True), b"{"),
        (LineParser(json=True), b"5"),
        (LineParser(json=True), b'{"value_base64":"?"}'),
    ],
)
def test_a_line_that_is_no_record_is_named_by_its_number(parser: LineParser, line: bytes) -> None:
    with pytest.raises(CommandError, match="line 17: "):
        parser.parse(line, 17)


@given(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    st.integers(0, 1 << 50),
)
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp: int,
) -> None:
    line = json_formatter()(WHERE, Record(5, timestamp, key, value, headers))
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    back = LineParser(json=True).parse(line[:-1], 1)
    assert (back.key, back.value, back.timestamp) == (key, value, timestamp)
    assert list(back.headers) == headers


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        ("%v\\n", b"v\n"),
        ("%t-%p@%o %k=%v %h %d %K %V%%\\t", b"t-3@5 k=v a=1,b= 0 1 1%\t"),
        ("%D", b"1970-01-01T00:00:00.000Z"),
        ("plain", b"plain"),
        ("", b""),
    ],
)
def test_a_format_is_filled_in(format_: str, expected: bytes) -> None:
    record = Record(5, 0, b"k", b"v", [("a", b"1"), ("b", None)])
    assert text_formatter(format_)(WHERE, record) == expected


@pytest.mark.parametrize("format_", ["%q", "%", "a%"])
def test_an_unknown_placeholder_is_refused(format_: str) -> None:
    with pytest.raises(UsageError, match="not one of"):
        text_formatter(format_)


def test_escapes_and_headers_are_read() -> None:
    assert unescape(r"\t\n\\\x41\q\\t") == "\t\n\\A\\q\\t"
    assert parse_headers(["a=b:c", "d:e"]) == [("a", b"b:c"), ("d", b"e")]
    for wrong in ("a", "=b", ":b"):
        with pytest.raises(UsageError):
            parse_headers([wrong])


def test_errors_end_as_one_line_with_what_to_do() -> None:
    line, code = line_of(CannotConnect("cannot connect to h:1: connection refused"))
    assert code == 3
    assert "headrace serve" in line
    line, code = line_of(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic x"))
    assert code == 4
    assert "headrace topic list" in line
    assert "\n" not in line


def test_a_missing_name_comes_with_the_nearest() -> None:
    assert "did you mean access?" in str(not_found("topic", "acess", ["access", "other"]))
    assert "headrace topic list" in str(not_found("topic", "zzz", ["access"]))
    assert "no topic at all" in str(not_found("topic", "zzz", []))


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list", "--nonsense"],
        ["topc", "list"],
        ["topic", "create", "x", "-p", "many"],
        ["topic", "create", "x", "-p", "0"],
        ["topic", "create"],
        ["topic", "alter", "x"],
        ["consume"],
        ["consume", "t", "-n", "0"],
        ["consume", "t", "--timeout", "nan"],
        ["consume", "t", "--timeout-ms", "-1"],
        ["topic", "list", "--request-timeout", "0"],
        ["topic", "list", "--request-timeout", "nan"],
        ["group", "list", "--request-timeout", "inf"],
        ["consume", "t", "-g", "g", "-p", "1"],
        ["produce"],
        ["produce", "t", "-k", "a", "--key-separator", ":"],
        ["produce", "t", "--tombstone"],
        ["produce", "t", "--acks", "2"],
        ["group", "describe"],
        ["group", "seek", "g"],
        ["group", "seek", "g", "--to", "middle"],
        ["log", "dump"],
        ["serve", "--set", "nonsense"],
        ["serve", "--set", "num.partition=1"],
        ["serve", "--listeners", "PLAINTEXT://0.0.0.0:0"],
        ["serve", "/does/not/exist.properties"],
        ["completion", "tcsh"],
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("headrace: ")


def test_python_m_headrace_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("headrace ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_output_is_no_error(closed: str) -> None:
    command = f"{sys.executable} -m headrace version {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_several_wrong_settings_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--set", "num.partitions=x", "--set", "log.dirss=y"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "num.partitions=x" in lines[0]
    assert "did you mean log.dirs?" in lines[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_the_commands(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0
    out = capsys.readouterr().out
    for word in ("topic", "consume", "describe", "from-beginning"):
        assert word in out


def test_tables_are_plain_columns_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME", "N"], [["a[b]", 1], ["longer", None]])
    assert capsys.readouterr().out == "NAME    N\na[b]    1\nlonger  -\n"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")
    assert json.loads(json_formatter()(WHERE, Record(0, -1, None, b"\xff"))) == {
        "topic": "t",
        "partition": 3,
        "offset": 0,
        "timestamp": -1,
        "key": None,
        "value": "/w==",
        "value_encoding": "base64",
        "headers": [],
    }


PLAIN = [
    [],
    ["server.properties"],
    ["--quiet", "--log-format", "json"],
    ["-q", "server.properties"],
    ["--listeners", "PLAINTEXT://127.0.0.1:0", "--log-dirs=/tmp/x"],
    ["--data", "here", "server.properties", "--set", "num.partitions=3", "--override", "a=b=c"],
    ["--insecure", "--node-id=4", "--log-level", "debug", "--set=log.dirs=there", "--log-dir", "d"],
    ["--zookeeper", "h:2181,g:2181/kafka", "--broker-id", "1"],
    ["--zookeeper", "h:2181/kafka", "--accept-cluster-id", "fJH4QcYHTxmWJ7QQCbHPuA"],
    ["--metrics", "127.0.0.1:1", "--advertised-listeners", "PLAINTEXT://h:1"],
    ["--management", "127.0.0.1:2", "--metrics=127.0.0.1:1"],
    ["--port", "0", "--quiet"],
    ["--port=9999", "--secure", "--data", "here"],
    ["--secure", "--port", "9999"],
]


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_plain_words_of_serve_mean_what_the_tree_of_commands_reads(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path | None, dict[str, str], bool, bool]] = []

    def start(
        properties: Path | None,
        flags: dict[str, str],
        *,
        quiet: bool = False,
        secure: bool = False,
        **_: object,
    ) -> int:
        seen.append((properties, flags, quiet, secure))
        return 0

    monkeypatch.setattr(serving, "start", start)
    app(["serve", *words], result_action="return_value")
    plain = plain_words(["serve", *words])
    assert plain is not None
    assert seen == [tuple(plain)]


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list"],
        ["serve", "--help"],
        ["serve", "-d"],
        ["serve", "one.properties", "two.properties"],
        ["serve", "--listeners"],
        ["serve", "--listeners", "--insecure"],
        ["serve", "--data", "a", "--log-dirs", "b"],
        ["serve", "--no-such-flag", "1"],
        ["serve", "--port", "1", "--listeners", "PLAINTEXT://127.0.0.1:1"],
        ["serve", "--listeners", "PLAINTEXT://127.0.0.1:1", "--port", "1"],
    ],
    ids=" ".join,
)
def test_words_that_are_not_plain_are_left_to_the_tree_of_commands(words: list[str]) -> None:
    assert plain_words(words) is None


def test_a_broker_starts_without_the_library_of_the_command_line() -> None:
    code = (
        "import sys, headrace.cli.main, headrace.cli.broker.start, headrace.server.main;"
        "print(*{'cyclopts', 'rich', 'importlib.metadata', 'kio', 'argparse', 'cryptography',"
        "'headrace.server.secure'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
