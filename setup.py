"""The description that a package index shows: README.md without its links into the repository.

On an index a relative link leads nowhere, an image is not found, and headings have no anchors.
Everything else about the package is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]\n]+)\]\((?![a-z]+:)[^)\s]*\)")
PAGES = "\nPages named here (`docs/…`) are in the repository and in the source distribution.\n"


def description() -> str:
    """Return README.md with relative links as their text, without relative images and comments."""
    readme = (Path(__file__).parent / "README.md").read_text("utf-8")
    text = LINK.sub(lambda link: "" if link[1] else link[2], COMMENT.sub("", readme))
    return text + PAGES


setup(long_description=description(), long_description_content_type="text/markdown")
