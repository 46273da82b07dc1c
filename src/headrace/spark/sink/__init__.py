"""The Spark sink: options, tasks, the committing driver, the decision log."""
