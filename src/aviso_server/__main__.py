"""``python -m aviso_server`` is the command line."""

from aviso_server.cli import main

if __name__ == "__main__":
    main()
