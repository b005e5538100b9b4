"""The console's files as a browser loads them: all at once, compressed, and never twice.

The console is some sixty small modules. A browser finds them level by level and would ask for each
of them again at every visit. So the home page names all modules at once, under an address with the
digest of the files: what stands there never changes and may be kept for ever.
"""

import gzip
import hashlib
from functools import cache, cached_property
from pathlib import Path

from aviso_server.http.pages import PACKAGED_STATIC

_MARK = "@"
"""Begins the step of a path that names the release; no file's name does."""
_STATIC = '"static/'
_HEAD_END = "</head>"
_COMPRESSED = frozenset({".css", ".js", ".json", ".svg"})


class Release:
    """The files below a folder, read once."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        self._gzipped = {
            name: gzip.compress(content, mtime=0)
            for name, content in self._files.items()
            if Path(name).suffix in _COMPRESSED
        }

    @cached_property
    def digest(self) -> str:
        """What distinguishes these files from those of another release."""
        digest = hashlib.blake2b(digest_size=8)
        for name, content in self._files.items():
            digest.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
        return digest.hexdigest()

    def page(self, page: str) -> str:
        """The home page, with every file of it at its lasting address and all modules named."""
        modules = (name for name in self._files if name.endswith(".js"))
        named = "".join(f'  <link rel="modulepreload" href="static/{name}">\n' for name in modules)
        lasting = f"{_STATIC}{_MARK}{self.digest}/"
        return page.replace(_HEAD_END, named + _HEAD_END, 1).replace(_STATIC, lasting)

    def find(self, name: str, *, gzipped: bool) -> tuple[bytes, bool] | None:
        """A file and whether it is compressed; None if there is no such file."""
        if gzipped and name in self._gzipped:
            return self._gzipped[name], True
        content = self._files.get(name)
        return None if content is None else (content, False)


@cache
def packaged() -> Release:
    """The console that comes with the server."""
    return Release(PACKAGED_STATIC)


def split_digest(path: str) -> tuple[str | None, str]:
    """The digest that a path begins with, and the rest of it."""
    first, slash, rest = path.partition("/")
    return (first[1:], rest) if slash and first.startswith(_MARK) else (None, path)
