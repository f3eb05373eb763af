"""The built-in datasets, one file each.

A file defines ``INFO`` (a :class:`~puarena.datasets.base.DatasetInfo`) and ``read``, or a
``READER`` that has both.
"""
