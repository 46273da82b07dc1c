"""Every Kafka API that is served. What is not in this list is not advertised and not answered.

One file an API; each ends with its `API` entry, and this list names them in key order.
"""

from headrace.frontends.kafka.handler import Api

APIS: tuple[Api, ...] = ()
