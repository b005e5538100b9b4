"""aviso-server: announce data, follow it live, replay its history."""

__version__ = "0.1.0"
