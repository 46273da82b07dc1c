"""Ids of delegation tokens."""

from headrace.cluster.settings.token_settings import new_token_id


class Drawn:
    """Random bytes that a test has chosen."""

    def __init__(self, *drawn: bytes) -> None:
        self._drawn = iter(drawn)

    def uuid(self) -> bytes:
        return next(self._drawn)

    def uniform(self, low: float, high: float) -> float:
        return low


def test_id_of_a_token_begins_with_no_hyphen() -> None:
    drawn = Drawn(b"\xf8" + bytes(15), b"\xfb" * 16, b"\xfc" + bytes(15))
    assert new_token_id(drawn) == "_AAAAAAAAAAAAAAAAAAAAA"
