"""Values of JSON as Erlang terms, as RabbitMQ's texts show them: `<<"x">>`, `1.5`, `null`.

RabbitMQ breaks a line of more than 80 characters within a term; here a term is one line.
"""

from collections.abc import Mapping

_PRINTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def erlang_term(value: object) -> str:
    """Return a decoded value of JSON as an Erlang term."""
    match value:
        case str():
            return _string(value)
        case True | False:
            return str(value).lower()
        case None:
            return "null"
        case Mapping():
            pairs = (f"{_string(str(key))} => {erlang_term(value[key])}" for key in sorted(value))
            return f"#{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(map(erlang_term, value))}]"
    return str(value)


def erlang_pairs(pairs: Mapping[str, object]) -> str:
    """Return a mapping as a list of pairs, sorted by key: `[{<<"nosuch">>,1}]`."""
    shown = (f"{{{_string(key)},{erlang_term(pairs[key])}}}" for key in sorted(pairs))
    return f"[{','.join(shown)}]"


def _string(value: str) -> str:
    quoted = value.translate(_PRINTED)
    return f'<<"{quoted}"{"" if quoted.isascii() else "/utf8"}>>'
