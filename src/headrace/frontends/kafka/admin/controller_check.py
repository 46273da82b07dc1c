"""What clients may ask of the controller only, and of no other broker."""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError


def not_controller(context: RequestContext) -> ApiError | None:
    """Return why this broker cannot do it; None where it is the controller.

    Clients look for the controller anew and ask that one.
    """
    return context.controller.not_controller()
