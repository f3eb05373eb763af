"""The datasets: a file each, with ``INFO`` (a :class:`~puarena.datasets.dataset.DatasetInfo`) and ``read``.

They are found here by the registry. One that keeps decoded images has ``cache_file`` too.
"""
