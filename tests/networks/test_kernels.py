"""What can be said of the Triton kernels without Triton: where they stand and what they read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import puarena

SOURCE = Path(puarena.__file__).parent
FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if "@triton.jit" in path.read_text(encoding="utf-8")
]


def jitted(tree: ast.AST) -> list[ast.FunctionDef]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [
        node
        for node in found
        if any(ast.unparse(d).startswith("triton.jit") for d in node.decorator_list)
    ]


def test_where_they_are():
    assert [str(path.relative_to(SOURCE)) for path in FILES] == [
        "networks/kernels/mlp.py",
        "networks/kernels/resnet.py",
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kernels_stand_at_module_level_and_read_arguments_only(path):
    """A plain global of the module cannot be read inside a kernel: Triton takes constants as
    arguments.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kernels = jitted(tree)
    assert kernels
    assert all(kernel in tree.body for kernel in kernels)
    for kernel in kernels:
        names = [node for node in ast.walk(kernel) if isinstance(node, ast.Name)]
        own = {a.arg for a in kernel.args.args} | {
            n.id for n in names if isinstance(n.ctx, ast.Store)
        }
        assert {n.id for n in names} - own <= {
            "tl",
            "triton",
            "range",
            *(other.name for other in kernels),
        }
