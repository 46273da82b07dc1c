"""PushTelemetry (key 72, v0): accept a client's subscribed metrics (KIP-714).

The payload is OpenTelemetry's MetricsData, decompressed and decoded on a thread; its gauges and
sums become series of /metrics. Malformed data is INVALID_RECORD, too much decompressed data
TELEMETRY_TOO_LARGE.
"""

from functools import partial

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.telemetry.get_telemetry_subscriptions import client_of
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.posix.awaiting import called_back
from headrace.record.compression import Codec, CorruptBatch, UnfoldsTooLarge, decompress
from headrace.wire.otlp import Point, points


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Accept a client's push of metrics (PushTelemetry), or raise ApiError."""
    telemetry, client = context.broker.telemetry, client_of(context)
    asked = request.client_instance_id
    payload = bytes(request.metrics)
    telemetry.check_push(
        None if asked is None else asked.bytes,
        client,
        subscription_id=request.subscription_id,
        codec=request.compression_type,
        size=len(payload),
        terminating=request.terminating,
    )
    if payload:
        codec, limit = Codec(request.compression_type), telemetry.bytes_max
        telemetry.take(client, await _read(context, payload, codec, limit))
    return maker(context)(None, error_code=ErrorCode.NONE)


async def _read(context: RequestContext, payload: bytes, codec: Codec, limit: int) -> list[Point]:
    """Decode the numbers of a push on a thread; raise ApiError."""

    def work() -> list[Point]:
        try:
            return list(points(decompress(codec, payload, limit)))
        except UnfoldsTooLarge as error:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, error.message) from error
        except CorruptBatch as error:
            raise ApiError(ErrorCode.INVALID_RECORD, error.message) from error
        except Malformed as error:
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error

    return await called_back(partial(context.broker.disk.run, work))
