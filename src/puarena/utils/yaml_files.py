"""YAML files of users: read safely, in bounded time and memory, and no key twice."""

from __future__ import annotations

import re
import stat
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from puarena.errors import UserError

MERGED, FLOAT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:float"
DEPTH, NODES, BYTES = 20, 20_000, 1 << 20  # more than any honest file has


class _Loader(yaml.SafeLoader):
    """The safe loader, which would let a later key silently replace an earlier one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGED:
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in keys:
                raise UserError(
                    f"the key '{key}' appears twice (line {key_node.start_mark.line + 1})"
                )
            keys.add(key if isinstance(key, Hashable) else repr(key))
        return super().construct_mapping(node, deep)


# PyYAML takes 1e-3 and 5E6 for text, as they have no point or sign; everybody means numbers.
_Loader.add_implicit_resolver(
    FLOAT, re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(path: str | Path, kind: str = "file") -> dict[str, Any]:
    """The keys and values of a file; ``kind`` is what an error calls it."""
    path = Path(path)
    try:
        if not stat.S_ISREG((facts := path.stat()).st_mode):  # a pipe would never end
            raise UserError("it is not a regular file")
        if facts.st_size > BYTES:
            raise UserError(f"it has more than {BYTES:,} bytes, and such a file has a few hundred")
        text = path.read_text(encoding="utf-8")
        _check_size(text)
        content = yaml.load(text, _Loader)  # a SafeLoader
    except UserError as error:
        raise UserError(f"the {kind} {path} cannot be used: {error}") from None
    except FileNotFoundError:
        raise UserError(f"there is no {kind} {path}") from None
    except OSError as error:
        raise UserError(
            f"the {kind} {path} cannot be read ({(error.strerror or str(error)).lower()})"
        ) from None
    except (
        yaml.YAMLError,
        ValueError,
    ) as error:  # ValueError: a NUL in the path, bytes that are no text, a 99th month
        raise UserError(
            f"the {kind} {path} is not valid YAML: {' '.join(str(error).split())[:300]}"
        ) from None
    if not isinstance(content, dict):
        raise UserError(
            f"the {kind} {path} must hold keys and values such as 'name: {path.stem}', one per line"
        )
    return {str(key): value for key, value in content.items()}


def _check_size(text: str) -> None:
    """Refuse what is nested too deeply or grows too large once its aliases are written out."""
    sizes: dict[str, int] = {}  # nodes inside each anchor
    open_nodes: list[tuple[str | None, int]] = [
        (None, 0)
    ]  # of the collections around the present place

    def add(count: int) -> None:
        anchor, before = open_nodes[-1]
        open_nodes[-1] = anchor, before + count
        if before + count > NODES:
            raise UserError(f"with its aliases written out it has more than {NODES:,} values")

    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise UserError(
                    f"the alias *{event.anchor} does not refer to a finished value before it"
                )
            add(sizes[event.anchor])
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor:
                sizes[event.anchor] = 1
            add(1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else "?"
                raise UserError(f"its values are nested more than {DEPTH} deep (line {line})")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, count = open_nodes.pop()
            if anchor:
                sizes[anchor] = count
            add(count)
