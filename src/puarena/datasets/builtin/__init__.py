"""The built-in datasets.

A file defines ``INFO`` (a :class:`~puarena.datasets.base.DatasetInfo`) and ``read``, or, for
several datasets of one kind, ``READERS`` that have both.
"""
