"""Label files, each of which belongs to an image."""

from __future__ import annotations


class BadLabelError(ValueError):
    """The labels of an image are wrong.

    Attributes:
      line: the line of its label file, from 1; 0 if unknown, or if the file has no lines.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line
