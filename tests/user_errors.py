"""A check that a mistake ends in the right error: its code and the offending names or values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from puarena.errors import UserError


@contextmanager
def raises_user_error(code: str, *tokens: object) -> Iterator[None]:
    """Expect a ``UserError`` of one line with this code, whose message contains the tokens."""
    with pytest.raises(UserError) as caught:
        yield
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    for token in tokens:
        assert str(token) in str(caught.value)
