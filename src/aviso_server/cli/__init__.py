"""The command line: ``aviso-server serve``, ``check`` and ``schema``."""

from aviso_server.cli.commands import main

__all__ = ["main"]
