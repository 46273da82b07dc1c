"""Conditions on requests that their heads decide: the site they come from, the types they accept.

A browser sends a form of any site to any listener that it reaches, with stored credentials. It
names the site in `Origin` and `Sec-Fetch-Site`, which scripts cannot change.
"""

from headrace.frontends.http.router import JSON, HttpRequest

_CHANGES_NOTHING = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_JSON_RANGES = frozenset({"*/*", "application/*", JSON})


def is_from_another_site(request: HttpRequest) -> bool:
    """Return whether a page of another site sends a request that changes something."""
    if request.method in _CHANGES_NOTHING:
        return False
    if request.header(b"sec-fetch-site").strip().lower() == "cross-site":
        return True
    origin = request.header(b"origin").strip().lower()
    if not origin:
        return False
    scheme, _, authority = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme, "")
    host = request.header(b"host").strip().lower()
    return not authority or authority.removesuffix(port) != host.removesuffix(port)


def accepts_json(request: HttpRequest) -> bool:
    """Return whether the client accepts JSON: it says so, or nothing."""
    ranges = request.header(b"accept").lower()
    return not ranges.strip() or any(map(_has_json, ranges.split(",")))


def _has_json(media_range: str) -> bool:
    kind, *parameters = (part.replace(" ", "") for part in media_range.split(";"))
    refused = any(part.startswith("q=") and not part.strip("q=0.") for part in parameters)
    return kind in _JSON_RANGES and not refused
