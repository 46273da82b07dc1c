"""The Spark source: options, planning, reading, offsets."""
