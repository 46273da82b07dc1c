"""The filter of a page's names: `name=`, a part of a name or a regular expression."""

from collections.abc import Callable, Mapping

from headrace.model.errors import ApiError
from headrace.model.regex import searcher

IsWanted = Callable[[str], bool]


def name_filter(query: Mapping[str, str]) -> IsWanted | None:
    """Return whether a name passes the filter of a query; None: there is no filter.

    Upper and lower case are equal. An invalid expression passes no name, as in RabbitMQ, nor does
    one that RE2 does not have.
    """
    text = query.get("name", "")
    if not text:
        return None
    if query.get("use_regex") != "true":
        part = text.lower()
        return lambda name: part in name.lower()
    try:
        return searcher(f"(?i){text}", "name")
    except ApiError:
        return lambda name: False
