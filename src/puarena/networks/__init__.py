"""Networks with a leading run axis: ``[runs, batch, …] -> [runs, batch]`` logits; rows never mix.

Every parameter has the run axis first. ``heads`` returns the two outputs, ``forward`` their
difference. A network is one class in one file of this package or of a plugin; other code only uses
what the class declares.
"""

from puarena.networks.base import RunNetwork
from puarena.networks.registry import DEFAULT, build, get, is_plugin, names, register, resolve
from puarena.networks.stacked import Stacked

__all__ = [
    "DEFAULT",
    "RunNetwork",
    "Stacked",
    "build",
    "get",
    "is_plugin",
    "names",
    "register",
    "resolve",
]
