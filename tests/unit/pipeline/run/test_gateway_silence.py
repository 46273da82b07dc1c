"""Log lines of a run about Spark's Java process: the error is a sentence, without tracebacks."""

import logging

import pytest

pytest.importorskip("pyspark")

from headrace.pipeline.run.run_session import gateway_silenced


def logged(file: str) -> None:
    """Log as a module does that uses the root logger."""
    text = "Exception while sending command."
    root = logging.getLogger()
    root.handle(logging.LogRecord("root", logging.ERROR, f"/lib/{file}", 1, text, (), None))


def test_errors_of_calls_to_the_jvm_are_left_out_in_a_run_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with gateway_silenced():
        logged("py4j/java_gateway.py")
        logged("py4j/clientserver.py")
        assert caplog.messages == []
        logged("shop/orders.py")
        assert len(caplog.messages) == 1
    logged("py4j/java_gateway.py")
    assert len(caplog.messages) == 2
