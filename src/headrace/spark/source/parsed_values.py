"""The option `valueParser` of the source: values that a Python function decodes, as JSON.

Internal: a run of a pipeline sets it. The decoder is unpickled by the tasks that read, not by the
driver. The project's modules that it imports are in an archive which the session has sent to
executors. The source's own processes do not get it: it may be sent after the source is registered.
"""

import json
import os
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import SparkFiles

from headrace.arrow.read.columns import TYPES
from headrace.arrow.typed.decoder import ValueDecoder
from headrace.arrow.typed.typed_rows import PREFIX, Mode
from headrace.spark.errors import OptionError
from headrace.spark.given_options import GivenOptions

PARSER = "valueParser"
MODES = {mode.value: mode for mode in Mode if mode is not Mode.PERMISSIVE}
"""Modes of a parser: a refused value has no columns that could be null."""


@dataclass(frozen=True)
class ParsedValues:
    """How values are decoded by a pickled `ValueDecoder`."""

    ddl: str
    """The declared columns."""
    digest: str
    """A digest of the columns and of the function."""
    arrow_schema: pa.Schema
    """The columns of a row without those of the record, all of them nullable."""
    pickled: bytes
    archive: str = ""
    """Name of the file with modules that the decoder imports; empty: none."""
    mode: Mode = Mode.FAILFAST
    corrupt: str = ""
    on_unknown: None = None

    def decoder(self) -> ValueDecoder:
        """Return a decoder, for one thread. Runs in a task, or in a process with the modules."""
        if self.archive:
            path = os.path.join(SparkFiles.getRootDirectory(), self.archive)
            if path not in sys.path:
                sys.path.insert(1, path)
        decoder: ValueDecoder = pickle.loads(self.pickled)  # noqa: S301 - the run has pickled it
        return decoder

    def has_corrupt(self) -> bool:
        """Return False: there is no field for refused values."""
        return False

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the Arrow schema of a row, with these columns of the record."""
        record = [pa.field(PREFIX + name, TYPES[name]) for name in columns]
        return pa.schema([*self.arrow_schema, *record])

    def to_option(self) -> dict[str, str]:
        """Return the option, without the mode."""
        said = {
            "ddl": self.ddl,
            "digest": self.digest,
            "schema": b64encode(self.arrow_schema.serialize().to_pybytes()).decode(),
            "pickled": b64encode(self.pickled).decode(),
            "archive": self.archive,
        }
        return {PARSER: json.dumps(said)}


def given_parser(given: GivenOptions) -> ParsedValues | None:
    """Return how a parser decodes values; None without the option. Raises OptionError."""
    text = given.text(PARSER)
    if text is None:
        return None
    for name in ("valueSchema", "columnNameOfCorruptRecord"):
        if name in given:
            raise OptionError(f"{name}: not with {PARSER}")
    try:
        said = json.loads(text)
        return ParsedValues(
            str(said["ddl"]),
            str(said["digest"]),
            pa.ipc.read_schema(pa.py_buffer(b64decode(said["schema"]))),
            b64decode(said["pickled"]),
            str(said["archive"]),
            given.choice("mode", MODES, Mode.FAILFAST),
        )
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"{PARSER}: the text is not what a pipeline's run writes") from None
