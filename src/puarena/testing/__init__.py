"""Checks of algorithms, for authors of algorithms and plugins."""
