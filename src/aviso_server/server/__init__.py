"""The server as a process: built from its settings, started, reloaded, supervised, stopped."""
