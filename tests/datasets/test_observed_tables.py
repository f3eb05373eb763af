"""A user's table with observed labels: what its YAML file may say, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from puarena import datasets
from puarena.errors import UserError


@pytest.fixture
def write(tmp_path):
    """Write a table, a survey and the YAML file that describes them; return its path."""

    def write(text, **columns):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"age": rng.normal(size=60), "weight": rng.normal(size=60)})
        frame["told"] = (np.arange(60) % 3 == 0).astype(int)
        frame["ill"] = np.where(np.arange(60) % 2 == 0, "yes", "no")
        frame.loc[frame["told"] == 1, "ill"] = "yes"
        frame.assign(**columns).to_csv(tmp_path / "patients.csv", index=False)
        frame.drop(columns="told").head(20).to_csv(tmp_path / "survey.csv", index=False)
        path = tmp_path / "patients.yaml"
        path.write_text(f"file: patients.csv\n{text}\n")
        return path

    return write


def test_truth_on_all_rows(write):
    data = datasets.load(write("observed: told\ntruth: ill"))
    labels = data.observed[1]
    assert (len(labels.labeled), len(labels.unlabeled)) == (20, 40)
    assert labels.truth.sum() == 40
    assert labels.test is None
    assert (data.truth, data.observed_setting, data.test_fraction) == ("all", "os", 0.2)
    assert data.prior_of(1) == pytest.approx(2 / 3)
    assert data.features.shape == (60, 2)


def test_truth_in_the_test_file_alone(write):
    text = "observed: told\ntruth: ill\ntest: survey.csv\nfeatures: [age, weight]\n"
    path = write(f"{text}setting: two-sample")
    frame = pd.read_csv(path.parent / "patients.csv").drop(columns="ill")
    frame.to_csv(path.parent / "patients.csv", index=False)
    data = datasets.load(path)
    labels = data.observed[1]
    assert list(labels.test) == list(range(60, 80))
    assert (labels.truth[:60] == -1).all()
    assert labels.truth[60:].sum() == 13
    assert (data.truth, data.observed_setting) == ("test", "ts")
    assert np.isnan(data.prior_of(1))


def test_truth_nowhere(write):
    data = datasets.load(write("observed: told\nfeatures: [age]"))
    assert data.truth == "none"
    assert len(data.observed[1].test) == 0
    assert data.features.shape == (60, 1)


def test_the_positive_value_may_be_named(write):
    words = np.where(np.arange(60) % 3 == 0, "seen", "not yet")
    data = datasets.load(write("observed: told\npositive: Seen\nfeatures: age", told=words))
    assert len(data.observed[1].labeled) == 20


THIRD = np.arange(60) % 3


@pytest.mark.parametrize(
    ("text", "columns", "code", "word"),
    [
        ("observed: told\ntruth: ill\nfeatures: [age, ill]", {}, "conflict", "'ill'"),
        ("observed: told\nfeatures: [age, told]", {}, "conflict", "'told'"),
        ("observed: told\ntruth: ill", {"told": THIRD}, "invalid-value", "'2'"),
        ("observed: told\ntruth: ill\npositive: [1]", {"told": THIRD}, "invalid-value", "'2'"),
        ("observed: told\ntruth: ill", {"ill": 0}, "conflict", "row 1"),
        ("observed: told\ntruth: ill", {"told": np.nan}, "missing-data", "row 1"),
        ("observed: tld\ntruth: ill", {}, "unknown-name", "'told'"),
        ("observed: told\ntruth: il", {}, "unknown-name", "'ill'"),
        ("observed: told\ntruth: told", {}, "invalid-spec", "'told'"),
        ("observed: told\nlabel: ill", {}, "invalid-spec", "`label`"),
        ("observed: told\nprior: 0.3", {}, "invalid-spec", "`prior`"),
        ("observed: told\ntest: survey.csv", {}, "invalid-spec", "`truth`"),
        ("label: ill\npositive: [yes]\ntruth: told", {}, "invalid-spec", "`observed`"),
        ("observed: told\nsetting: three-sample", {}, "invalid-spec", "`setting`"),
    ],
)
def test_what_is_refused(write, text, columns, code, word):
    with pytest.raises(UserError) as error:
        datasets.load(write(text, **columns))
    assert error.value.code == code
    assert word in str(error.value)
