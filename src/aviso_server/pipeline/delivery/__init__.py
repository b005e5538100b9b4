"""Notifications on their way to a server: bounded, paced, in order, each once even over kills."""
