"""A plugin of pytest, ``-p pretended_gpu``: tests that use a GPU run on a pretended one."""

from __future__ import annotations

from puarena.testing.pretended import pretend

_device = pretend()


def pytest_configure(config):
    """Pretend before test modules are imported."""
    _device.__enter__()


def pytest_unconfigure(config):
    """Stop pretending."""
    _device.__exit__(None, None, None)
