"""Reading what 0.1.0 wrote (format 1): facts that had no column of their own then are filled in.

The names are those of 0.1.0 and never change; a plugin's method is taken to be a method of its own.
"""

from __future__ import annotations

from puarena.store.sql import sql_text

FORMAT = 1
LACKING = (  # columns that it did not have
    "base", "calibrated", "variant", "frame", "supervised", "prior_source", "prior_used", "precision",
    "labelling", "optimiser",
)  # fmt: skip
CALIBRATED = ("upu", "nnpu", "nnpu-ga", "pusb", "vpu", "dist-pu")
RELEASED = (
    *CALIBRATED, "pubn", "pan", "cvir", "p3mix-e", "p3mix-c", "lbe", "count-loss", "robust-pu", "holistic-pu", "pue",
    "glws",
)  # fmt: skip
FRAMES = {"pn-oracle": True, "pn-naive": False}  # handed true labels?

# name -> plain method, calibrated, variant
FORMS = {f"{name}-c": (name, True, "") for name in CALIBRATED}
FORMS |= {f"{name}@released": (name, False, "released") for name in RELEASED}
FORMS |= {f"{name}-c@released": (name, True, "released") for name in CALIBRATED}


def _one_of(names: list[str]) -> str:
    return f"algorithm IN ({', '.join(map(sql_text, names))})"


def with_facts(table: str) -> str:
    """SQL for a table of format 1 with the columns that it lacks."""
    bases = " ".join(f"WHEN {sql_text(name)} THEN {sql_text(form[0])}" for name, form in FORMS.items())
    return f"""(SELECT * REPLACE (split_part(profile, '+', 1) AS profile),
        CASE algorithm {bases} ELSE algorithm END AS base,
        {_one_of([name for name, form in FORMS.items() if form[1]])} AS calibrated,
        CASE WHEN {_one_of([name for name, form in FORMS.items() if form[2]])} THEN 'released' ELSE '' END AS variant,
        {_one_of(list(FRAMES))} AS frame,
        {_one_of([name for name, supervised in FRAMES.items() if supervised])} AS supervised,
        CASE WHEN contains(profile, '+') THEN split_part(profile, '+', 2) ELSE 'true' END AS prior_source,
        coalesce(CAST(json_extract_string(hyper, '$.prior_used') AS DOUBLE), prior) AS prior_used,
        coalesce(json_extract_string(hyper, '$.precision'), 'float32') AS precision,
        'scar' AS labelling, 'protocol' AS optimiser
        FROM {table})"""
