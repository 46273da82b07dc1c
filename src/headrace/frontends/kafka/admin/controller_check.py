"""What clients may ask of the controller only, and of no other broker."""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode


def not_controller(context: RequestContext) -> ApiError | None:
    """Return why this broker cannot do it; None where it is the controller.

    Clients look for the controller anew and ask that one.
    """
    if context.controller.is_controller:
        return None
    return ApiError(ErrorCode.NOT_CONTROLLER, "another broker is the controller")
