"""The client configuration files that `headrace serve --secure` writes, password included."""

import json

from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.config.properties import render
from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism

MECHANISM = Mechanism.SCRAM_SHA_512
JAVA = "client-java.properties"
LIBRDKAFKA = "client-librdkafka.properties"
SPARK = "client-spark.json"
FILES = (JAVA, LIBRDKAFKA, SPARK)
"""Names of the files: for Java clients, librdkafka and Spark."""
_HEAD = "# Made by headrace serve --secure. It holds a password: nobody else shall read it.\n"


def client_files(bootstrap: str, authority: str, user: str, password: Secret) -> dict[str, str]:
    """Return the files' texts by name; `authority` is the path of the authority's certificate."""
    common = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": str(MECHANISM),
    }
    java = common | {
        "sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}"'
        f' password="{password.reveal()}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority,
    }
    librdkafka = common | {
        "sasl.username": user,
        "sasl.password": password.reveal(),
        "ssl.ca.location": authority,
    }
    spark = {f"kafka.{name}": value for name, value in java.items()}
    return {
        JAVA: _HEAD + render(java),
        # Its readers split lines at the first equals sign and process no escapes.
        LIBRDKAFKA: _HEAD + "".join(f"{name}={value}\n" for name, value in librdkafka.items()),
        SPARK: json.dumps(spark, indent=2) + "\n",
    }
