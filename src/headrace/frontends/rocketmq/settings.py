"""The settings of RocketMQ's listeners, as requests use them."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.frontends.rocketmq.administration.disk_watermark import CleaningRules
from headrace.frontends.rocketmq.send_modes import SendMode
from headrace.subscriptions.half_messages import AskingRules
from headrace.subscriptions.new_groups import ZeroOffsetRule


class RemotingSettings(NamedTuple):
    """The settings of RocketMQ's listeners."""

    cluster: str
    region: str
    advertised: tuple[str, int] | None
    """The address in routes; None: the one that the client has connected to."""
    zero_offset: ZeroOffsetRule
    memory_bytes: int
    """The machine's memory, which the rule 4.9 asks for."""
    queues_default: int
    """Queues of a topic that a send creates, at most."""
    delay_ms_max: int
    """The longest delay of a message that names a time."""
    recalls: bool
    """Whether delayed messages may be recalled."""
    asked_after_ms: int
    """After what time the producer of an undecided message is asked first."""
    asking: AskingRules
    resets_on_server: bool
    """Whether a reset is answered to the next pull; if not, it is pushed to the members."""
    send_mode: SendMode
    """The event that the answer to a send waits for, by its settings."""
    cleaning: CleaningRules
    disk_used_percent_max: int
    """The used part of a disk above which sends are refused."""
    topic_config: Mapping[str, str]
    trace_topic: bool
    """Whether the topic of traces is created at the start."""
