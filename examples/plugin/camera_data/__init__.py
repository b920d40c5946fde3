"""A layout and a record format for beam-tfrecord, found by the entry points in pyproject.toml."""
