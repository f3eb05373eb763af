"""The estimators of the share of positives inside U: one file each, found by its ``METHOD``."""

from puarena.priors.sample import PriorMethod
from puarena.utils.discovery import find_declared

METHODS: dict[str, PriorMethod] = {
    method.name: method for method in find_declared(__name__, "METHOD")
}
