"""A page for every method, out of its class: paper, objective, hyperparameters, differences, what
was measured.
"""

from __future__ import annotations

import inspect
import re
from html import escape
from pathlib import Path

from evidence import SHOWN, problem_words, published
from formula import mathml

import puarena
from puarena import catalog
from puarena.catalog import MethodInfo, explain_assumptions, explain_calibration
from puarena.metrics import CRITERIA, METRICS

LONG = 34  # characters of a formula that stands on a line of its own
FOLDER = "algorithms"
PACKAGE = Path(puarena.__file__).parent
GROUPS = {
    "The paper's seventeen": "Compared in the paper; `--algorithms all` runs them with their calibrated forms.",
    "Beyond the paper": "Run if they are named, or with `--algorithms all-known`.",
    "Classics": "Fitted at once instead of trained by steps; also scikit-learn estimators in `puarena.classics`.",
    "Reference baselines": "Trained with true labels or propensities, or naively; they do not compete.",
}


def list_plain() -> list[MethodInfo]:
    """Every method once: its plain form, as its paper defines it."""
    return [
        e
        for e in catalog.get_all().values()
        if not (e.calibrated or e.variant or e.origin == "plugin")
    ]


def group_of(entry: MethodInfo) -> str:
    """Under which heading a method stands."""
    paper, beyond, classic, baseline = GROUPS
    return (
        baseline
        if entry.baseline
        else classic
        if entry.is_classic
        else paper
        if entry.in_paper
        else beyond
    )


def groups() -> dict[str, list[MethodInfo]]:
    """The methods under their headings."""
    return {
        group: [entry for entry in list_plain() if group_of(entry) == group] for group in GROUPS
    }


def pages() -> dict[str, str]:
    """All pages by their paths."""
    return {f"{FOLDER}/index.md": index()} | {
        f"{FOLDER}/{e.name}.md": page(e) for e in list_plain()
    }


def forms_of(entry: MethodInfo) -> list[MethodInfo]:
    """The other forms of a method: calibrated, and the published code's."""
    return [e for e in catalog.get_all().values() if e.base == entry.base and e.name != entry.name]


# -- text
# ------------------------------------------------------------------------------------------------------------


def typeset(text: str, options: tuple[str, ...] = ()) -> str:
    """Words with formulas in double backquotes, as HTML; ``options`` are names whose settings stay
    code.
    """
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        out = ""
        for words, formula, after in re.findall(
            r"(.*?)(?:``(.+?)``([.,:;]?)|$)", " ".join(paragraph.split())
        ):
            out += escape(words) + (_formula(formula, after, options) if formula else "")
        paragraphs.append(f"<p>{out}</p>".replace("<p></p>", ""))
    return "\n".join(paragraphs)


def _formula(text: str, after: str, options: tuple[str, ...]) -> str:
    if text.split(" = ")[0] in options:
        return f"<code>{escape(text)}</code>{after}"
    if len(text) <= LONG:
        return mathml(text) + after
    return f'</p><div class="formula">{mathml(text, True, after)}</div><p>'


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


# -- pages
# -----------------------------------------------------------------------------------------------------------


def index() -> str:
    """The page of all methods."""
    parts = [
        "# Algorithms",
        "Every method is one class in one short file, from which its page is generated. "
        "[Which one should I use?](../choosing.md) The symbols of the formulas are in the "
        "[glossary](../glossary.md#symbols-of-the-formulas).",
    ]
    for group, entries in groups().items():
        lines = [
            "| method | name | assumes | prior | calibrated form |",
            "| --- | --- | --- | --- | --- |",
        ]
        for entry in entries:
            calibrated = f"`{entry.calibrated_form}`" if entry.calibrated_form else ""
            assumed = "" if entry.baseline else entry.setting
            prior = "" if entry.baseline else "yes" if entry.needs_prior else "no"
            lines.append(
                f"| [{entry.title}]({entry.name}.md) | `{entry.name}` | {assumed} | {prior} | {calibrated} |"
            )
        parts += [f"## {group}", GROUPS[group], "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def page(entry: MethodInfo) -> str:
    """The page of one method."""
    parts = [f"# {entry.title}", _paper(entry), _facts(entry), "## What it computes"]
    options = tuple(name for name, hyper in entry.hypers.items() if isinstance(hyper.default, str))
    parts.append(typeset(entry.description, options))
    if entry.calibrated_form:
        parts += [f"### Calibrated: {entry.calibrated_form}", _calibrated(entry)]
    parts += ["## Hyperparameters", _hyperparameters(entry)]
    parts += ["## How it differs from the published code", _differences(entry)]
    parts += ["## Results", _measured(entry), "## How to use it", _use(entry)]
    parts += ["## The code", _code(entry)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _paper(entry: MethodInfo) -> str:
    words = entry.paper[0].upper() + entry.paper[1:]
    return f"*{words}.*"


def _facts(entry: MethodInfo) -> str:
    facts = {"assumes": explain_assumptions(entry).removeprefix("Assumes ")}
    if entry.baseline:
        facts["assumes"] = "a reference baseline of the tables, which does not compete"
    forms = ", ".join(f"`{form.name}`" for form in forms_of(entry))
    facts |= {
        "other forms": forms,
        "trained in": ", then ".join(entry.phases) if not entry.is_classic else "one fit",
    }
    facts["engine features"] = ", ".join(entry.engine_needs)
    facts["authors' optimizer"] = (
        "" if entry.is_classic or entry.baseline else entry.authors_optimizer or "not known"
    )
    lines = [f"| {key} | {_cell(value)} |" for key, value in facts.items() if value]
    return "\n".join([f"| name | `{entry.name}` |", "| --- | --- |", *lines])


def _calibrated(entry: MethodInfo) -> str:
    text = explain_calibration(entry) or catalog.get(entry.calibrated_form).description
    return (
        typeset(text.removeprefix("Calibrated for one-sample data: "))
        + "\n\n[Why?](../pictures.md#internal-label-shift)"
    )


def _hyperparameters(entry: MethodInfo) -> str:
    if entry.is_classic:
        return f"Those of the estimator: [`{entry.cls.__name__}`](../reference/classics.md)."
    if not entry.hypers:
        return "Only learning rate and batch size."
    lines = ["| name | default | search | meaning |", "| --- | --- | --- | --- |"]
    for key, hyper in entry.hypers.items():
        choices = f" (one of {', '.join(f'`{c}`' for c in hyper.choices)})" if hyper.choices else ""
        search = f"`{_cell(hyper.search)}`" if hyper.search else ""
        lines.append(f"| `{key}` | `{hyper.default}` | {search} | {_cell(hyper.doc)}{choices} |")
    return "\n".join(
        [
            *lines,
            "",
            "Also learning rate and batch size, which are drawn as in [the protocol](../protocol.md).",
        ]
    )


def _differences(entry: MethodInfo) -> str:
    parts = [_sentences(entry.differs) if entry.differs else "No differences are known."]
    for form in forms_of(entry):
        if form.variant and not form.calibrated:
            words = "" if form.differs == entry.differs else f"<p>{escape(form.differs)}</p>"
            parts.append(
                f'<div class="admonition note"><p class="admonition-title">As in the published code: '
                f"<code>{escape(form.name)}</code></p>\n{typeset(form.description)}\n{words}</div>"
            )
    return "\n\n".join(parts)


def _sentences(text: str) -> str:
    """Words of a class, with nothing that Markdown would read as its own."""
    return re.sub(r"([_*<>\[\]|`])", r"\\\1", text)


def _measured(entry: MethodInfo) -> str:
    parts = []
    for found in published():
        rows = found.rows_of(entry.base)
        if not rows:
            continue
        by = {name: CRITERIA[own].title for name, own in found.criteria.items()}
        heads = [f"{METRICS[metric].inline} by {by[criterion]}" for metric, criterion in SHOWN]
        lines = [
            f"| problem | form | {' | '.join(heads)} |",
            f"| --- | --- |{' ---: |' * len(heads)}",
        ]
        lines += [
            f"| {problem_words(part)} | `{row.method.algorithm}` | {' | '.join(cells)} |"
            for part, row, cells in rows
        ]
        names = dict.fromkeys(row.method.algorithm for _, row, _ in rows if not row.method.baseline)
        ranks = "; ".join(
            f"`{name}` {found.place_of(name)}" for name in names if found.place_of(name)
        )
        ranked = (
            f"\n\nPlace by the mean accuracy over these problems, models selected by {by['pa']}: {ranks}."
            if ranks
            else ""
        )
        board = f"[The leaderboard](../leaderboard/{found.name}.html)."
        parts.append(
            f"### {found.name}\n\n" + "\n".join(lines) + f"{ranked}\n\n{found.made_by} {board}"
        )
    if not parts:
        return (
            "It is not in the published results yet. The following commands run it and compare it with them "
            "(Letter and USPS; half an hour or more on two cores; `puarena plan` estimates the time):\n\n"
            f"```sh\npuarena run tabular --algorithms {entry.name} --out mine\n"
            "puarena report mine --with published:tabular\n```"
        )
    unit = (
        "Percent, mean over splits ± standard error (population standard deviation / sqrt(n)). The criterion (PA, "
        "PAUC, OA) is the one that [selected the model](../criteria.md)."
    )
    return "\n\n".join([*parts, unit])


def _use(entry: MethodInfo) -> str:
    names = [
        entry.name,
        *(form.name for form in forms_of(entry) if form.calibrated and not form.variant),
    ]
    run = f"puarena run demo --algorithms {','.join(names)} --out results"
    parts = [f"```sh\npuarena explain {entry.name}\n{run}\npuarena report results\n```"]
    if not entry.baseline:
        parts.append(
            f'```python\nfrom puarena import PUClassifier\n\nclf = PUClassifier("{entry.name}").fit(X, labeled)\n```'
        )
        if entry.calibrated_form and not entry.is_classic:
            parts.append(
                f"(`PUClassifier` takes the form `{entry.calibrated_form}` by itself where the data is one sample.)"
            )
    return "\n\n".join(parts)


def _code(entry: MethodInfo) -> str:
    file = Path(inspect.getfile(entry.cls))
    text = "\n".join(
        f"    {line}".rstrip() for line in file.read_text(encoding="utf-8").splitlines()
    )
    return f'??? note "`puarena/{file.relative_to(PACKAGE)}`, all of it"\n\n    ```python\n{text}\n    ```'
