"""Declarations that brokers of an earlier version cannot read wait for the upgrade of all."""

from headrace.broker.metadata_image import MetadataImage
from headrace.model.protocols import AMQP
from headrace.queues.model.exchange_types.registry import EXCHANGE_TYPES
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.refusals import precondition_failed
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import ExchangeDeclare


def upgrades_for(image: MetadataImage, feature: str) -> str | None:
    """Return the end of an error that names the brokers with queues that lack a feature, if any."""
    before = sorted(
        int(broker)
        for broker, info in image.brokers.items()
        if AMQP.feature in info.features and feature not in info.features
    )
    if not before:
        return None
    brokers = "broker" if len(before) == 1 else "brokers"
    return (
        f"while brokers of a version without {feature} serve queues: upgrade {brokers}"
        f" {', '.join(map(str, before))}"
    )


def check_type_known(image: MetadataImage, model: VirtualHost, method: Method | None) -> None:
    """Raise Refused for a new exchange of a type that a broker with queues does not have."""
    if not isinstance(method, ExchangeDeclare) or method.exchange in model.exchanges:
        return
    declared = EXCHANGE_TYPES.get(method.type)
    if declared is None or declared.feature is None:
        return
    before = upgrades_for(image, declared.feature)
    if before is not None:
        raise precondition_failed(f"exchange type '{method.type}' cannot be declared {before}")
