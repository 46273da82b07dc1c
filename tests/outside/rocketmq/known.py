"""Cells of the matrix without a scenario, and scenarios that do not hold, each with its reason."""

KNOWN: dict[str, dict[tuple[str, str], str]] = {
    "ours": {},
    "rocketmq": {
        ("c++", "each message of a batch is stored with its tag"): "the client names a batch by"
        " batch=1, and RocketMQ reads `true` alone: it stores the encoded batch as one message",
        ("c++", "a message that fails is retried, then is a dead letter"): "the client sends a"
        " message back without originTopic, and RocketMQ 5.5.0 answers a NullPointerException"
        " where the message would be a dead letter",
    },
}
"""By broker: the reason by client and claim of a scenario."""

_C_API = "the C functions that rocketmq 0.4.4 for Python calls have no "
LACKING = {
    ("java 4.9.7", "recall"): "4.9.7 has no recallMessage",
    ("go", "recall"): "2.1.2 has no recall",
    ("go", "tls"): "2.1.2 has no option for TLS",
    ("go", "trace-off"): "traces need an interceptor; no other row of it has one",
    ("c++", "lite-pull"): _C_API + "lite pull consumer",
    ("c++", "sql92"): _C_API + "kind of an expression: it is a filter by tags",
    ("c++", "recall"): _C_API + "recall",
    ("c++", "transactions"): _C_API + "transactions",
    ("c++", "request-reply"): _C_API + "requests",
    ("c++", "tls"): _C_API + "option for TLS",
    ("c++", "namespaces"): _C_API + "namespaces",
    ("c++", "trace-off"): _C_API + "message trace",
    ("ali-ons", "async-send"): "its producer has one send, which returns a promise",
    ("ali-ons", "one-way-send"): "its producer has one send, which waits for the answer",
    ("ali-ons", "batch-send"): "its producer sends single messages",
    ("ali-ons", "pull"): "it has a push consumer only",
    ("ali-ons", "lite-pull"): "it has a push consumer only",
    ("ali-ons", "orderly"): "it never locks queues",
    ("ali-ons", "recall"): "it has no recall",
    ("ali-ons", "transactions"): "it has no transactions",
    ("ali-ons", "request-reply"): "it has no requests",
    ("ali-ons", "tls"): "its sockets are plain",
    ("ali-ons", "trace-off"): "it has no message trace",
}
"""By client and row."""
