"""What a channel says leaves in its order, though some of it is known late."""

from headrace.frontends.amqp.connection.deferred_output import HeldOutput


def test_what_is_written_behind_a_hold_leaves_with_its_release_in_order() -> None:
    sent: list[bytes] = []
    output = HeldOutput(sent.append)
    first = output.hold()
    output.write(b"b")
    second = output.hold()
    output.write(b"d")
    second(b"c")
    assert (sent, bool(output.parts)) == ([], True)
    first(b"a")
    assert (sent, bool(output.parts)) == ([b"abcd"], False)


def test_the_first_to_be_released_leaves_without_those_behind_it() -> None:
    sent: list[bytes] = []
    output = HeldOutput(sent.append)
    first, second = output.hold(), output.hold()
    output.write(b"b")
    first(b"a")
    assert (sent, bool(output.parts)) == ([b"a"], True)
    second(b"")
    assert sent == [b"a", b"b"]
