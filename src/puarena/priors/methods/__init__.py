"""The estimators of the share of positives inside U: a file each, found by its ``METHOD``."""

from puarena.priors.sample import Method
from puarena.utils.discovery import find_declared

METHODS: dict[str, Method] = {method.name: method for method in find_declared(__name__, "METHOD")}
