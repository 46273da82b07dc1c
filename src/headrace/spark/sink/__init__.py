"""The Spark sink: options, tasks, the driver that decides, the decision log."""
