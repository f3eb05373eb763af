"""Formulas of docstrings and pages, typeset: from the notation that ``puarena explain`` prints to
MathML.

A formula is written once, as plain text that a terminal can show: ``prior mean_P l+ + max(-beta,
mean_U l-)``. Plugins such as latex2mathml read TeX, which a terminal cannot show, and KaTeX needs a
script in the page; browsers draw MathML themselves. The notation: names of Greek letters, ``prior``, ``_`` for what stands below, ``^`` for what stands
above, ``'`` and ``~`` after a name, ``l+`` and ``l-`` for losses, ``a / b`` for a fraction of the
two factors beside the stroke, ``1(…)`` for an indicator; other words stay.
"""
# ruff: noqa: RUF001 (letters that look like others are meant)

from __future__ import annotations

import re
from html import escape

LETTERS = {
    "prior": "π",
    "pi": "π",
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eta": "η",
    "lam": "λ",
    "mu": "μ",
    "nu": "ν",
    "psi": "ψ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "Phi": "Φ",
    "l": "ℓ",
}
OPERATORS = {"-": "\u2212", "<=": "≤", ">=": "≥", "*": "·", "~": "∼", "||": "∥", "->": "→"}
CLOSING = {"(": ")", "[": "]", "{": "}", "|": "|"}
TOKEN = re.compile(
    r"(?P<gap>\s+)"
    r"|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<name>(?P<stem>[A-Za-z]+)(?P<digits>\d*)(?:_(?P<below>[+-]|[0-9.]*[0-9]|[A-Za-z0-9]+'*))?"
    r"(?P<prime>'*)(?P<tilde>~?)(?P<sign>(?<=[lgL])[+-](?=$|[\s\])},/.;|]))?)"
    r"|(?P<mark>\|\||->|<=|>=|[-+*/^=<>~∓±,;:.()\[\]{}|…])"
)


class FormulaError(ValueError):
    """The text is not in the notation."""


def mathml(text: str, block: bool = False, after: str = "") -> str:
    """A formula as MathML, with a comma or point ``after`` it; its ``alttext`` is the plain
    notation.
    """
    parser = _Parser(text)
    inside = parser.until(None)
    display = ' display="block"' if block else ""
    end = f"<mtext>{escape(after)}</mtext>" if after else ""
    return f'<math{display} alttext="{escape(text)}"><mrow>{inside}{end}</mrow></math>'


class _Parser:
    """Reads a formula from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[re.Match[str]] = []
        place = 0
        while place < len(text):
            found = TOKEN.match(text, place)
            if found is None:
                raise FormulaError(
                    f"'{text}' has '{text[place]}', which is not in the notation of formulas"
                )
            self.tokens.append(found)
            place = found.end()

    def peek(self, ahead: int = 0) -> re.Match[str] | None:
        """The next token, if there is one."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def is_next(self, *marks: str) -> bool:
        """Is the next token one of these marks?"""
        token = self.peek()
        return token is not None and token["mark"] in marks

    def opens(self, after_factor: bool) -> bool:
        """Does the next mark open a bracket? A stroke after a factor does with a gap before it and
        none after it.
        """
        before, token, after = self.peek(-1), self.peek(), self.peek(1)
        if token is None or token["mark"] != "|" or not after_factor:
            return token is not None and token["mark"] in CLOSING
        return bool(self.at and before and before["gap"]) and not (after is None or after["gap"])

    def until(self, end: str | None) -> str:
        """Everything up to a closing bracket, or up to the end."""
        parts: list[str] = []
        after_factor = word = False  # what stands before: a factor, and does it end with a word?
        while (token := self.peek()) is not None:
            if token["gap"]:
                self.at += 1
            elif end is not None and token["mark"] == end:
                self.at += 1
                return "".join(parts)
            elif token["mark"] and not self.opens(after_factor):
                if token["mark"] in CLOSING.values() and token["mark"] != "|":
                    raise FormulaError(
                        f"'{self.text}' has a bracket '{token['mark']}' that was not opened"
                    )
                self.at += 1
                parts.append(_operator(token["mark"], after_factor))
                after_factor = False
            else:
                is_word = (
                    bool(token["stem"]) and len(token["stem"]) > 1 and token["stem"] not in LETTERS
                )
                if after_factor:
                    parts.append(f'<mspace width="{"0.3em" if word or is_word else "0.17em"}"/>')
                parts.append(self.quotient(end))
                after_factor, word = True, is_word
        if end is not None:
            raise FormulaError(f"'{self.text}' lacks a '{end}'")
        return "".join(parts)

    def quotient(self, end: str | None) -> str:
        """A factor, or a fraction of two."""
        above, bare = self.factor(end)
        here = self.at
        while (token := self.peek()) is not None and token["gap"]:
            self.at += 1
        if not self.is_next("/"):
            self.at = here
            return above
        self.at += 1
        while (token := self.peek()) is not None and token["gap"]:
            self.at += 1
        _, below = self.factor(end)
        return f"<mfrac><mrow>{bare}</mrow><mrow>{below}</mrow></mfrac>"

    def factor(self, end: str | None) -> tuple[str, str]:
        """A name, a number or a bracket, with what it is applied to; the same without its own
        brackets.
        """
        token = self.peek()
        if token is None:
            raise FormulaError(f"'{self.text}' ends too early")
        self.at += 1
        bare = None
        if token["number"]:
            indicator = token["number"] == "1" and self.is_next("(")
            shown = (
                f"<mrow><mn>𝟙</mn>{self.brackets()}</mrow>"
                if indicator
                else _number(token["number"])
            )
        elif token["name"]:
            shown = _name(token)
            if self.is_next("(", "["):
                shown = f"<mrow>{shown}{self.brackets()}</mrow>"
        elif token["mark"] in CLOSING and token["mark"] != end:
            self.at -= 1
            bare, shown = self.inside()
            bare = None if token["mark"] == "|" else bare
        else:
            raise FormulaError(
                f"'{self.text}' has '{token.group()}' where a name or a number is expected"
            )
        if self.is_next("^"):
            self.at += 1
            power, _ = self.factor(end)
            shown = f"<msup>{shown}{power}</msup>"
            bare = None
        return shown, shown if bare is None else bare

    def brackets(self) -> str:
        """A bracket and what is in it."""
        return self.inside()[1]

    def inside(self) -> tuple[str, str]:
        """What is in a bracket, without and with the bracket, which is tall where there is a
        fraction in it.
        """
        token = self.peek()
        assert token is not None
        opening = token["mark"]
        self.at += 1
        bare = self.until(CLOSING[opening])
        tall = "" if "<mfrac>" in bare else ' stretchy="false"'
        form = ' form="prefix"', ' form="postfix"'  # a stroke does not say on which side it stands
        left, right = (
            f"<mo{tall}{side}>{mark}</mo>"
            for side, mark in zip(form, (opening, CLOSING[opening]), strict=True)
        )
        return bare, f"<mrow>{left}{bare}{right}</mrow>"


def _number(text: str) -> str:
    """A number; one with an exponent as a power of ten."""
    digits, _, exponent = text.partition("e")
    if not exponent:
        return f"<mn>{text}</mn>"
    factor = "" if digits == "1" else f"<mn>{digits}</mn><mo>·</mo>"
    return f"<mrow>{factor}<msup><mn>10</mn><mn>{exponent.replace('-', OPERATORS['-'])}</mn></msup></mrow>"


def _operator(mark: str, binary: bool) -> str:
    form = "" if binary or mark not in "+-∓±" else ' form="prefix"'
    return f"<mo{form}>{escape(OPERATORS.get(mark, mark))}</mo>"


def _name(token: re.Match[str]) -> str:
    """A name with what stands below, above and over it."""
    stem, below = token["stem"], token["below"] or token["digits"]
    if below == "bar":
        return f"<mover><mi>{LETTERS.get(stem, stem)}</mi><mo>¯</mo></mover>"
    shown = f"<mi>{LETTERS.get(stem, stem)}</mi>" if stem != "sum" or not below else "<mo>∑</mo>"
    if token["tilde"]:
        shown = f"<mover>{shown}<mo>~</mo></mover>"
    if token["sign"]:
        below = token["sign"]
    if below:
        plain = below.rstrip("'")
        kind = "mo" if plain in "+-" else "mn" if plain[0].isdigit() else "mi"
        under = f"<{kind}>{OPERATORS.get(plain, LETTERS.get(plain, plain))}</{kind}>"
        primes = "′" * (len(below) - len(plain))
        place = "munder" if stem == "sum" else "msub"
        shown = f"<{place}>{shown}<mrow>{under}{f'<mo>{primes}</mo>' if primes else ''}</mrow></{place}>"
    if token["prime"]:
        shown = f"<msup>{shown}<mo>{'′' * len(token['prime'])}</mo></msup>"
    return shown
