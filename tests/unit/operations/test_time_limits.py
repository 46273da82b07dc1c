"""The time limit of an operation on several topics holds for all of them together."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.context import OperationContext
from headrace.operations.permissions import Caller, Surface
from headrace.operations.topics import Growth, create_partitions
from headrace.security.identity import USER, Identity, Principal
from headrace.testing.sim.loop import SimLoop

CALLER = Caller(Identity("10.0.0.1", "WEB", Principal(USER, "root")), Surface.HTTP)


class SilentController:
    """A controller that completes no growth."""

    def not_controller(self) -> None:
        """It is the controller."""

    async def create_partitions(self, *_: object, **__: object) -> None:
        await asyncio.sleep(3600)


def test_growth_of_several_topics_ends_with_the_time_limit_of_one() -> None:
    broker: Any = SimpleNamespace(authorizer=SimpleNamespace(allows_all=True))
    nothing: Any = None
    controller: Any = SilentController()
    context = OperationContext(broker, controller, nothing, CALLER)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        wanted = [Growth(name, 3) for name in ("t", "u", "v")]
        outcome = await create_partitions(context, wanted, validate_only=True, seconds=2.0)
        assert 2.0 <= loop.time() - began < 2.1
        codes = {
            name: error.code if isinstance(error, ApiError) else None
            for name, error in outcome.items()
        }
        assert codes == dict.fromkeys("tuv", ErrorCode.REQUEST_TIMED_OUT)

    SimLoop(1).play(story())
