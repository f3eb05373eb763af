"""Named experiments that come with the package. A new one is one more entry of ``SUITES``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from puarena.errors import unknown_name
from puarena.experiments.spec import FixedValues, ProblemSpec, Spec

# The upper reference of every table and the two lower ones.
BASELINES = ("pn-oracle", "pn-naive", "pn-quantile")
# Two-sample methods for the question of how much one-sample data cost them.
SHIFT_METHODS = ("upu", "nnpu", "nnpu-ga", "pusb", "vpu", "dist-pu")
RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
TABULAR = (ProblemSpec(dataset="letter", cases=(1, 2)), ProblemSpec(dataset="usps", cases=(1, 2)))
IMAGES = (
    ProblemSpec(dataset="cifar10", cases=(1, 2)),
    ProblemSpec(dataset="imagenette", cases=(1, 2)),
)
TABLES = ("spambase", "mushroom", "magic", "adult", "connect-4", "fashion-mnist")

STRENGTHS = {  # mechanism -> its parameter, and the values that the suites run
    "posterior": ("strength", (0.5, 1, 2)),
    "boundary": ("power", (3, 10, 20)),
    "feature": ("strength", (1, 2, 4)),
    "class": ("strength", (0.5, 1, 2)),
}
BIASED_LABELING = (
    "scar",
    *(f"{name}({key}={value})" for name, (key, values) in STRENGTHS.items() for value in values),
)
# Methods for labels that are not given at random; the last is a classic.
BIAS_METHODS = ("sar-oracle", "sar-em", "ntc-tmi", "sar-em-lr")

# What short training on digits fixes: a larger learning rate than the protocol's, and a smaller one
# for PUe, whose risk has no lower bound and diverges with 0.03.
SHORT_TRAINING: dict[str, FixedValues] = {
    "*": {"lr": 0.03, "batch_size": 64},
    "pue": {"lr": 0.003},
    "pue-c": {"lr": 0.003},
}
# PAN's losses are sums: with 0.03 its discriminator saturates in the first steps, and with the
# paper's balance its classifier hardly moves in 800.
PAN_THAT_TRAINS: Any = {"lr": 0.005, "balance": 0.01}

# What practitioners fit to labeled and unlabeled rows.
PRACTICAL = (
    "sklearn:puarena.PUClassifier(setting=setting)",
    "naive-lr",
    "naive-boosting",
    "biased-lr",
    "elkan-noto",
    "bagging-pu",
    "down-sampled-rf",
    "maxent",
)
# Species with at least 30 presences, and 5 places with and without it in the survey.
# fmt: off
SPECIES = {
    "awt": (*range(1, 21), 23, 26, 27, 28, 29, 30, 32, 35, 36, 38, 40),
    "nsw": (4, 6, *range(8, 20), 21, 23, 24, 28, 43, *range(47, 55)),
    "nz": (
        *range(2, 10), *range(15, 21), 22, 25, 27, 30, 31, 32, 34, 36, 38, 43, 44, *range(46, 53),
    ),
}
# fmt: on
WILD_STEPS, WILD_WARMUP = 2_000, 400

SUITES = [
    Spec(
        name="demo",
        title="Demo: handwritten digits",
        description="Every algorithm on scikit-learn's digits, one-sample, 30% labeled; two "
        "minutes on two cores. Training is short, so the learning rate is larger than the "
        "protocol's and nothing is searched; PAN and PUe have smaller ones, with which they train.",
        problems=[ProblemSpec(dataset="digits", cases=(1, 2))],
        configs=1,
        steps=800,
        warmup=160,
        hyper={**SHORT_TRAINING, "pan": PAN_THAT_TRAINS},
    ),
    Spec(
        name="tabular",
        title="The paper's main tables, tabular half",
        description="Letter and USPS, one-sample, 30% labeled, both cases, 3 splits, 10 "
        "configurations, 20,000 steps.",
        problems=TABULAR,
    ),
    Spec(
        name="tabular-standardised",
        title="Letter with standardized features",
        description="The Letter half of the suite tabular, with every feature at mean 0 and "
        "deviation 1: some methods saturate on the raw integers that the paper feeds them.",
        problems=[ProblemSpec(dataset="letter-standardised", cases=(1, 2))],
    ),
    Spec(
        name="images",
        title="The paper's main tables, image half",
        description="CIFAR-10 and ImageNette, one-sample, 30% labeled, both cases, 3 splits, 10 "
        "configurations, 20,000 steps of a residual network: for a GPU.",
        problems=IMAGES,
    ),
    Spec(
        name="paper",
        title="The paper's main tables",
        description="The suites tabular and images together.",
        problems=(*TABULAR, *IMAGES),
    ),
    Spec(
        name="label-shift",
        title="One sample against two samples against calibrated",
        description="All four datasets over five positive rates: does two-sample training suffer "
        "from one-sample data, and does calibration mend it? (Letter has too few examples for two "
        "samples above 30%. Without the image files: --datasets letter,usps.)",
        problems=[
            ProblemSpec(dataset="letter", cases=(1, 2), rates=RATES),
            ProblemSpec(dataset="letter", cases=(1, 2), settings=("two-sample",), rates=RATES[:3]),
            *(
                ProblemSpec(
                    dataset=name, cases=(1, 2), settings=("one-sample", "two-sample"), rates=RATES
                )
                for name in ("usps", "cifar10", "imagenette")
            ),
        ],
        algorithms=(*BASELINES, *(form for name in SHIFT_METHODS for form in (name, f"{name}-c"))),
    ),
    Spec(
        name="bias-demo",
        title="Labels that are not given at random: handwritten digits",
        description="Some methods on scikit-learn's digits, one-sample, 20% labeled, where labels "
        "prefer some positives; minutes on two cores. Training is short, as in the demo.",
        problems=[
            ProblemSpec(dataset="digits", rates=(0.2,), labeling=(*BIASED_LABELING, "property"))
        ],
        algorithms=(*BASELINES, "nnpu-c", "vpu-c", "pusb-c", "lbe", "pue", "pue-c", *BIAS_METHODS),
        splits=2,
        configs=1,
        steps=800,
        warmup=160,
        hyper=SHORT_TRAINING,
    ),
    Spec(
        name="bias-tabular",
        title="Labels that are not given at random",
        description="Every method on Letter, USPS and digits, one-sample, 20% labeled (40% of the "
        "positives), labels given at random, by four mechanisms at three strengths each, and by "
        "the look of images; 3 splits, 3 configurations, 10,000 steps.",
        problems=[
            ProblemSpec(dataset="letter", rates=(0.2,), labeling=BIASED_LABELING),
            *(
                ProblemSpec(dataset=name, rates=(0.2,), labeling=(*BIASED_LABELING, "property"))
                for name in ("usps", "digits")
            ),
        ],
        # Without the classic, which fits long on the CPU while a GPU waits.
        algorithms=("all", *BIAS_METHODS[:-1]),
        configs=3,
        steps=10_000,
        warmup=1_000,
    ),
    Spec(
        name="standard",
        title="The literature's CIFAR-10 problem: vehicles against animals",
        description="1,000 labeled vehicles and the whole training set unlabeled (two-sample, "
        "class prior 0.4), the default configuration with the optimizer of a method's authors "
        "where it declares one: the problem on which most papers report, for a GPU. They report "
        "the best epoch on the test set, which is OA here at best.",
        problems=[
            ProblemSpec(
                dataset="cifar10",
                cases=(3,),
                settings=("two-sample",),
                labeled=1000,
                unlabeled=50_000,
            )
        ],
        algorithms=("nnpu", "vpu", "dist-pu", "pulda", "self-pu", "tedn", *BASELINES),
        configs=1,
        optimizer="authors",
    ),
    Spec(
        name="tables",
        title="Six tables people know",
        description="Spambase, Mushroom, MAGIC, Adult, Connect-4 and Fashion-MNIST as they are: "
        "all rows, raw features, the natural class prior, one-sample, 10% labeled. The default "
        "configuration only; with --steps 2000 for two cores in under an hour.",
        problems=[ProblemSpec(dataset=name, rates=(0.1,)) for name in TABLES],
        configs=1,
    ),
    Spec(
        name="tables-standardised",
        title="Six tables people know, standardized",
        description="The suite tables with every feature at mean 0 and deviation 1: on the raw "
        "numbers of Adult (weights of a hundred thousand and more) not even the oracle learns.",
        problems=[ProblemSpec(dataset=f"{name}-standardised", rates=(0.1,)) for name in TABLES],
        configs=1,
    ),
    Spec(
        name="wild",
        title="Labels that the world gave",
        description="NHANES and the NCEAS species of three regions: labels as they were observed, "
        "judged by an independent truth; the prior is estimated, since nobody knows it. What "
        "practitioners use and every algorithm, 2,000 steps, one split; an hour on two cores. "
        "Needs puarena[species] and the files of nceas-awt, nceas-nsw and nceas-nz.",
        problems=[
            ProblemSpec(dataset="nhanes-diabetes"),
            *(
                ProblemSpec(dataset=f"nceas-{region}", cases=cases)
                for region, cases in SPECIES.items()
            ),
        ],
        algorithms=("all", *PRACTICAL),
        prior_source="estimate",
        splits=1,
        configs=1,
        steps=WILD_STEPS,
        warmup=WILD_WARMUP,
        record_every=200,
        hyper={"*": {"lr": 0.01, "batch_size": 64}},
    ),
    Spec(
        name="wild-demo",
        title="Labels that the world gave: diabetes",
        description="Every algorithm and what practitioners use on NHANES, where some know that "
        "they have diabetes and some do not; the prior is estimated. Embedded, five splits, 2,000 "
        "steps; ten minutes on two cores.",
        problems=[ProblemSpec(dataset="nhanes-diabetes")],
        algorithms=("all", *PRACTICAL),
        prior_source="estimate",
        splits=5,
        configs=1,
        steps=WILD_STEPS,
        warmup=WILD_WARMUP,
        record_every=200,
        hyper={"*": {"lr": 0.01, "batch_size": 64}},
    ),
]


def names() -> list[str]:
    """Return the names of the suites, those for newcomers first."""
    return [suite.name for suite in SUITES]


def get(name: str) -> Spec:
    """Return a suite by its name."""
    for suite in SUITES:
        if suite.name == name:
            return suite
    raise unknown_name("suite", name, names())


def load(source: Spec | Mapping[str, Any] | str | Path) -> Spec:
    """Return a spec from a spec, a dictionary, the name of a suite, or the path of a YAML file."""
    if not isinstance(source, (str, Path)):
        return Spec.load(source)
    path = Path(source)
    is_file = path.suffix in {".yaml", ".yml"} or path.is_file()
    if is_file and str(source) not in names():
        return Spec.load(path)
    return get(str(source))
