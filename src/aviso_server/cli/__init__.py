"""The command line: ``aviso-server serve``, ``check``, ``schema`` and ``pipeline``."""

from aviso_server.cli.commands import main

__all__ = ["main"]
