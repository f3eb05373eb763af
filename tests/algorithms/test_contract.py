"""Every algorithm keeps the contract, in every form; what breaks a promise is caught by its check.

On a GPU machine ``make test-gpu`` runs the same checks there.
"""

from dataclasses import replace

import pytest
from defective import ALSO_BROKEN, DEFECTS, QUICK_DEFECTS, Sound
from typer.testing import CliRunner

import goldens
from puarena import catalog
from puarena.cli import app
from puarena.errors import UserError
from puarena.testing import contract

CONFIG = replace(contract.CONFIG, device=goldens.DEVICE)
NAMES = [*catalog.names("puarena"), *catalog.names("released")]


@pytest.mark.parametrize("check", contract.CHECKS)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, check):
    contract.CHECKS[check](name, CONFIG)


def test_hooks_that_act_again_are_seen_by_captured_steps():
    """Robust-PU weights its examples every fifth epoch: with large batches epochs are short."""
    contract.captures_its_steps("robust-pu", replace(CONFIG, batch_size=128))


def test_every_form_is_among_them():
    assert {"nnpu", "nnpu-c", "nnpu@released", "nnpu-c@released"} <= set(NAMES)


@pytest.fixture
def register(monkeypatch):
    """Register a class as a plugin's, for one test."""

    def as_plugin(cls):
        info = catalog.describe_algorithm(cls, "plugin")[0]
        monkeypatch.setitem(catalog.get_all(), "defect", info)
        return "defect"

    return as_plugin


def test_every_promise_has_a_defect():
    assert set(DEFECTS) == set(contract.CHECKS)


@pytest.mark.parametrize(
    "promise, cls, words",
    [(promise, cls, words) for promise, of in DEFECTS.items() for cls, words in of.items()],
)
def test_defects_are_caught_by_the_promise_they_break(promise, cls, words, register):
    name = register(cls)
    # What is wrong on a GPU is right on a CPU, and need not run on a real one.
    config = contract.CONFIG if promise == "captured equals eager" else CONFIG
    with pytest.raises(contract.ContractError, match=words):
        contract.CHECKS[promise](name, config)
    # A defect may prevent learning as well, and that check takes long.
    others = contract.CHECKS.keys() - {promise, "learns"}
    broken = {other for other in others if _breaks(other, name, config)}
    assert broken == ALSO_BROKEN.get(cls, set())


def _breaks(promise, name, config):
    try:
        contract.CHECKS[promise](name, config)
    except contract.ContractError:
        return True
    return False


@pytest.mark.parametrize("promise", contract.CHECKS)
def test_the_smallest_algorithm_keeps_the_contract(promise, register):
    contract.CHECKS[promise](register(Sound), CONFIG)


def test_a_baseline_may_see_labels(register):
    baseline = type("Baseline", (next(iter(DEFECTS["ignores hidden labels"])),), {"baseline": True})
    contract.CHECKS["ignores hidden labels"](register(baseline), CONFIG)


# -- the quick check -----------------------------------------------------------------


@pytest.mark.parametrize("cls, token", QUICK_DEFECTS.items())
def test_the_quick_check_refuses_what_cannot_be_trained(cls, token, register):
    name = register(cls)
    ((promise, problem),) = contract.check_algorithm(name, quick=True)
    assert promise == "takes first steps"
    assert token in problem
    with pytest.raises(UserError, match="defect") as error:
        contract.check_plugins([name])
    assert error.value.code == "invalid-plugin"
    assert token in str(error.value)


def test_the_quick_check_passes_what_is_sound(register):
    name = register(Sound)
    assert list(contract.check_algorithm(name, quick=True)) == [("takes first steps", None)]
    contract.check_plugins([name])


# -- the command ---------------------------------------------------------------------

PLUGIN = """
from puarena.algorithms import Algorithm, logistic

class {name}(Algorithm):
    name = title = paper = "{name}"
    {attributes}

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + self.mean_u(logistic(f_u, -1), logistic(f_p, -1)){more}
"""


@pytest.fixture
def few(monkeypatch):
    """Only the two promises that these tests are about."""
    names = ("survives no positives in u", "ignores hidden labels")
    monkeypatch.setattr(contract, "CHECKS", {name: contract.CHECKS[name] for name in names})


def _check(tmp_path, name, attributes, more=""):
    file = tmp_path / f"{name}.py"
    file.write_text(PLUGIN.format(name=name, attributes=attributes, more=more))
    return CliRunner().invoke(app, ["check", str(file)])


@pytest.mark.usefixtures("few")
def test_check_fails_a_competitor_that_sees_labels(tmp_path):
    result = _check(tmp_path, "sees", "supervised = True")
    assert result.exit_code == 2
    assert "sees: BROKEN ignores hidden labels" in result.output


@pytest.mark.usefixtures("few")
def test_check_passes_a_baseline_that_sees_labels(tmp_path):
    result = _check(tmp_path, "oracle", "supervised = baseline = True")
    assert (result.exit_code, result.output.count("ok")) == (0, 2)


@pytest.mark.usefixtures("few")
def test_check_looks_at_the_calibrated_form_too(tmp_path):
    result = _check(tmp_path, "half", "calibrates = True", " * (1 + 0 / (self.w == 0))")
    assert result.exit_code == 2
    lines = result.output.splitlines()
    verdicts = [line.split()[:2] for line in lines[:4]]
    assert verdicts == [["half:", "ok"]] * 2 + [["half-c:", "BROKEN"], ["half-c:", "ok"]]


def test_check_of_a_name_that_has_no_steps():
    result = CliRunner().invoke(app, ["check", "spies"])
    assert result.exit_code == 2
    assert "'spies'" in result.output
