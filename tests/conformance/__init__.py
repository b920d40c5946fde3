"""What a conversion makes of an input, as data: tests/conformance/expected/*.json, a file a group of rows."""
