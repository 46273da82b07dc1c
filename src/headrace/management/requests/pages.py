"""The two pages for people: the broker's name, and the paths of the API."""

from collections.abc import Iterable
from html import escape

from headrace.management.requests.table import Row

_PAGE = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
    "<body>\n<h1>{title}</h1>\n{content}\n</body></html>\n"
)
INDEX = "/api/index.html"
"""The path of the list of paths."""


def front_page(node: str) -> bytes:
    """Return the page at `/`, as HTML."""
    content = f'<p>RabbitMQ\'s management API is at <a href="{INDEX}">/api</a>.</p>'
    return _PAGE.format(title=escape(f"Headrace, broker {node}"), content=content).encode()


def index_page(rows: Iterable[Row]) -> bytes:
    """Return the page with all paths of the API, as HTML."""
    lines = [
        f"<tr><td>{row.method}</td><td>/api{escape(row.pattern)}</td>"
        f"<td>{row.tag.value or 'anyone'}</td></tr>"
        for row in sorted(rows, key=lambda row: (row.pattern, row.method))
    ]
    head = "<tr><th>method</th><th>path</th><th>tag</th></tr>"
    content = "\n".join(["<table>", head, *lines, "</table>"])
    return _PAGE.format(title="Headrace: management API", content=content).encode()
