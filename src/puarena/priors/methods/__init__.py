"""The estimators of the share of positives inside U: a file each, found by its ``METHOD``."""

import sys

from puarena.priors.sample import Method
from puarena.utils.discovery import modules_of

METHODS: dict[str, Method] = {
    room.METHOD.name: room.METHOD for room in modules_of(sys.modules[__name__])
}
