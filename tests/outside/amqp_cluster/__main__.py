"""Kills, pauses and partitions of three brokers under AMQP clients: `make amqp-cluster-test`.

Runs in namespaces of its own (`tests.chaos.namespaces.enclosed`). Status 1: a promise broke.
"""

import subprocess
import sys

from tests.chaos.namespaces import NoNamespaces, enclosed
from tests.outside.amqp.peer import RABBITMQ_4_3, prepared
from tests.outside.amqp_cluster.run import parser
from tests.outside.kafka_reads_our_files.jvm import NoJvm, libraries
from tests.support.zookeeper import PROJECT


def main() -> int:
    arguments = parser().parse_args()
    # Fetched from outside: within there is no network but its own.
    try:
        if arguments.broker == "rabbitmq":
            prepared(release=RABBITMQ_4_3)
        else:
            libraries(PROJECT)
        command = [sys.executable, "-m", "tests.outside.amqp_cluster.run", *sys.argv[1:]]
        return subprocess.run(enclosed(command), check=False).returncode
    except (NoNamespaces, NoJvm) as error:
        print(f"three brokers cannot be run here: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
