"""Values of JSON as Erlang terms, as RabbitMQ's texts show them: `<<"x">>`, `1.5`, `null`.

RabbitMQ breaks a line of more than 80 characters within a term; here a term is one line.
"""

from collections.abc import Mapping

DEPTH_MAX = 20
_PRINTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def erlang_term(value: object, depth: int = DEPTH_MAX) -> str:
    """Return a decoded value of JSON as an Erlang term; `...` stands for values nested deeper."""
    match value:
        case str():
            return _string(value)
        case True | False:
            return str(value).lower()
        case None:
            return "null"
        case Mapping() | list() if depth == 0:
            return "..."
        case Mapping():
            fields = (
                (_string(name), erlang_term(value[name], depth - 1)) for name in sorted(value)
            )
            return f"#{{{','.join(f'{name} => {shown}' for name, shown in fields)}}}"
        case list():
            return f"[{','.join(erlang_term(each, depth - 1) for each in value)}]"
    return str(value)


def erlang_pairs(pairs: Mapping[str, object]) -> str:
    """Return a mapping as a list of pairs, sorted by key: `[{<<"nosuch">>,1}]`."""
    shown = (f"{{{_string(key)},{erlang_term(pairs[key])}}}" for key in sorted(pairs))
    return f"[{','.join(shown)}]"


def _string(value: str) -> str:
    if not value:
        return "<<>>"
    quoted = value.translate(_PRINTED)
    return f'<<"{quoted}"{"" if quoted.isascii() else "/utf8"}>>'
