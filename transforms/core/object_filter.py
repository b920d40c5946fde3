"""Which names of a bucket are images: the rules of folders, where there are only names."""

from __future__ import annotations

import functools

from transforms.core.listing import ImageRoot, ListingFilter

_FOLDERS = 4096  # whose outcome is kept in mind


class ObjectFilter:
    """A `ListingFilter` for names that come without their folders, in any order.

    A hidden folder counts once, however many names lie below it.

    Attributes:
      rules: what is asked and counts.
      prefix: what the names of everything below the root begin with.
    """

    def __init__(self, root: ImageRoot) -> None:
        self.rules = ListingFilter(root)
        self.prefix = root.uri.rstrip("/") + "/"
        self._hidden: set[str] = set()
        self._hidden_folder_of = functools.lru_cache(_FOLDERS)(self._hidden_in)

    def hidden_folder(self, key: str) -> str:
        """The outermost hidden folder that a key lies in, with a slash at its end; or empty."""
        return self._hidden_folder_of(key[: key.rfind("/") + 1])

    def _hidden_in(self, folder: str) -> str:
        end = folder.find("/")
        while end >= 0:
            outer = folder[: end + 1]
            if outer in self._hidden:
                return outer
            if not self.rules.enters(folder[folder.rfind("/", 0, end) + 1 : end]):
                self._hidden.add(outer)
                return outer
            end = folder.find("/", end + 1)
        return ""

    def lists(self, key: str) -> bool:
        """Whether an object is listed as an image; a name with a slash at its end is a folder's."""
        if self.hidden_folder(key) or not key or key.endswith("/"):
            return False
        return self.rules.lists(key, self.prefix + key)
