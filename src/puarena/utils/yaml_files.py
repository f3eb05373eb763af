"""Reading of the YAML files of users."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from puarena.errors import UserError
from puarena.utils.files import describe_error

MERGE_TAG, FLOAT_TAG = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would silently replace an earlier key by a later equal one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE_TAG:
                continue
            key = repr(self.construct_object(key_node, deep=True))
            if key in keys:
                line = key_node.start_mark.line + 1
                raise yaml.YAMLError(f"the key {key} appears twice (line {line})")
            keys.add(key)
        return super().construct_mapping(node, deep)


# PyYAML reads 1e-3 and 5E6 as text because they have no point or sign.
_EXPONENT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
_Loader.add_implicit_resolver(FLOAT_TAG, _EXPONENT, list("-+.0123456789"))


def read_yaml(path: str | Path, kind: str = "file") -> dict[str, Any]:
    """Return the keys and values of a YAML file; ``kind`` names it in error messages."""
    path = Path(path)
    try:
        content = yaml.load(path.read_text("utf-8"), _Loader)
    except FileNotFoundError:
        raise UserError(f"there is no {kind} {path}", "missing-file") from None
    except OSError as error:
        reason = describe_error(error)
        raise UserError(f"the {kind} {path} cannot be read ({reason})", "cannot-read") from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"the {kind} {path} is not valid YAML: {reason}", "wrong-format") from None
    if not isinstance(content, dict):
        message = f"the {kind} {path} must contain lines such as 'name: {path.stem}'"
        raise UserError(message, "wrong-format")
    return {str(key): value for key, value in content.items()}
