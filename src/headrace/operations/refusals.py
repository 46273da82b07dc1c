"""Refusals of operations by the protocol of their objects."""

from headrace.model.errors import ApiError, ErrorCode


class OperationRefused(ApiError):
    """An operation that AMQP refuses: `message` has a remedy, `reason` is the text for clients."""

    def __init__(self, code: ErrorCode, message: str, reply_code: int, reason: str) -> None:
        """`reply_code`: AMQP's, as 404; `reason`: RabbitMQ's text without the code's name."""
        super().__init__(code, message)
        self.reply_code = reply_code
        self.reason = reason
