"""docs/typed-topics.md shows the type table that the decoders are held to."""

from tools import gen_typed_docs as docs


def test_page_shows_the_type_table_of_the_tests() -> None:
    assert docs.TARGET.read_text("utf-8") == docs.render()
