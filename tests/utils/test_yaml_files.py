"""YAML files of users: safe types only, no key twice, numbers as people write them."""

from __future__ import annotations

import pytest

from puarena.errors import UserError
from puarena.utils.yaml_files import read_yaml


def test_numbers_with_an_exponent_and_merged_keys(tmp_path):
    (tmp_path / "a.yaml").write_text("lr: 1e-3\nbase: &b {x: 1}\ncopy: {<<: *b, x: 2}\n1: one\n")
    content = read_yaml(tmp_path / "a.yaml")
    assert content == {"lr": 0.001, "base": {"x": 1}, "copy": {"x": 2}, "1": "one"}


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("a: 1\nb: 2\na: 3", "'a'"),
        ("a: {b: 1, b: 2}", "'b'"),
        ("a: [", "line 1"),
        ("- 1", "a.yaml"),
        ("", "a.yaml"),
        ("x: 2001-99-99", "month"),
        ("x: !!python/object/apply:os.getcwd []", "python"),
    ],
)
def test_wrong_content(tmp_path, text, token):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_yaml(tmp_path / "a.yaml")
    assert caught.value.code == "wrong-format"
    assert token in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path):
    for path, code in ((tmp_path / "none.yaml", "missing-file"), (tmp_path, "cannot-read")):
        with pytest.raises(UserError) as caught:
            read_yaml(path, "spec")
        assert caught.value.code == code
