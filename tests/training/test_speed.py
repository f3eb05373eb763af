"""``puarena speed`` measures what it says, and its ratios are of figures measured in the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from puarena import catalog, speed
from puarena.cli import app
from puarena.errors import UserError

BASELINE = Path(__file__).parents[2] / "benchmarks" / "baseline.py"


def test_the_command(tmp_path):
    out = tmp_path / "speed.json"
    arguments = [
        "speed",
        "--algorithms",
        "nnpu",
        "--runs",
        "1,3",
        "--seconds",
        "0.05",
        "--device",
        "cpu",
    ]
    result = CliRunner().invoke(app, [*arguments, "--against", str(BASELINE), "--out", str(out)])
    assert result.exit_code == 0, result.output
    told = json.loads(out.read_text())
    assert set(told["ratios"]) == {"fleet of one", "baseline"}
    rates = {m["runs"]: m["run_steps_per_second"] for m in told["measured"]}
    assert set(rates) == {0, 1, 3}
    assert told["ratios"]["baseline"] == pytest.approx(rates[3] / rates[0])
    assert told["ratios"]["fleet of one"] == pytest.approx(rates[3] / rates[1])
    assert told["machine"]["torch"]
    assert len(told["machine"]["source"]) == 16
    assert "largest stack against baseline" in result.stdout


def test_what_is_measured_by_default():
    """All but the frame that is handed true propensities, which made-up data do not have."""
    forms = [n for n in catalog.names("puarena") if not catalog.get(n).calibrated]
    assert set(forms) - set(speed.default_algorithms()) == {"sar-oracle"}


@pytest.mark.parametrize("name", speed.default_algorithms())
def test_the_baseline_trains_every_algorithm(name):
    x, rows = speed.synthetic(speed.Shape((5,), 200, 400, 60, 32, "mlp"), 1)
    rate = speed._baseline(BASELINE)(
        name, torch.as_tensor(x), rows[0].data, rows[0].hidden, 32, 0.0
    )
    assert rate > 0


def test_images():
    shape = speed.Shape((3, 8, 8), 60, 90, 20, 8, "resnet32")
    m = speed.measure_images("resnet32", 2, batch_size=4, sizes=(2, shape))
    assert (m.network, m.runs, m.device, m.gigabytes) == ("resnet32", 2, "cpu", 0.0)
    assert m.step > m.view >= 0
    assert m.run_seconds == pytest.approx(20 * m.step + 0.2 * m.record)
    result = CliRunner().invoke(app, ["speed", "--network", "resnet50"])
    assert result.exit_code == 2
    assert "unknown network for images 'resnet50'" in result.stderr


def test_bad_baselines(tmp_path):
    with pytest.raises(UserError, match="not a Python file"):
        speed._baseline(tmp_path / "missing.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(UserError, match="defines no steps_per_second"):
        speed._baseline(tmp_path / "empty.py")
    result = CliRunner().invoke(app, ["speed", "--algorithms", "nnqu"])
    assert result.exit_code == 2
    assert "did you mean" in result.stderr


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--runs", "0,1"], "--runs has 0"),
        (["--precision", "bf16"], "give --network"),
        (["--network", "resnet32", "--algorithms", "vpu"], "measures nnPU alone"),
    ],
)
def test_wrong_options(arguments, sentence):
    result = CliRunner().invoke(app, ["speed", *arguments])
    assert result.exit_code == 2
    assert sentence in result.stderr
