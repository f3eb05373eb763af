"""benchmarks/speed.py measures what it says, and its ratios are of figures of the same call."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from puarena import UserError, catalog

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
speed = importlib.import_module("speed")
sys.path.remove(str(FOLDER))


def test_ratios_are_of_one_call(tmp_path, capsys):
    out = tmp_path / "speed.json"
    words = f"--algorithms nnpu --features 16,20 --runs 1,3 --seconds 0.05 --device cpu --out {out}"
    speed.main(words.split())
    written = json.loads(out.read_text())
    assert set(written["ratios"]) == {"16", "20"}
    ratios = written["ratios"]["20"]
    assert set(ratios) == {"fleet of one", "baseline"}
    rates = {
        m["runs"]: m["run_steps_per_second"] for m in written["measured"] if m["features"] == 20
    }
    assert set(rates) == {0, 1, 3}
    assert ratios["baseline"] == pytest.approx(rates[3] / rates[0])
    assert ratios["fleet of one"] == pytest.approx(rates[3] / rates[1])
    assert len(written["machine"]["source"]) == 16
    assert "20 features, largest fleet against baseline" in capsys.readouterr().out


def test_every_plain_form_is_measured_that_needs_no_true_propensity():
    forms = [n for n in catalog.names("puarena") if not catalog.get(n).calibrated]
    assert set(forms) - set(speed.list_algorithms()) == {"sar-oracle"}


@pytest.mark.parametrize("name", ["dist-pu", "sar-em", "lbe"])
def test_a_fleet_is_measured_in_the_phase_that_the_baseline_trains(name):
    x, rows = speed.make_synthetic(speed.Shape((5,), 200, 400, 60, 32, "mlp"), 2)
    config = speed.training.FleetConfig(batch_size=32, warmup=0, record_every=4)
    fleet = speed.training.Fleet([speed.rename(row, name) for row in rows], config, x)
    speed.shorten_phases(fleet)
    next(fleet.segments())
    assert fleet.algorithm.phase == catalog.get(name).cls.phases[-1]


@pytest.mark.parametrize("name", speed.list_algorithms())
def test_the_baseline_trains_every_algorithm(name):
    x, rows = speed.make_synthetic(speed.Shape((5,), 200, 400, 60, 32, "mlp"), 1)
    rate = speed.load_baseline(speed.BASELINE)
    assert rate(name, torch.as_tensor(x), rows[0].data, rows[0].hidden, 32, 0.0) > 0


def test_images():
    shape = speed.Shape((3, 8, 8), 60, 90, 20, 8, "resnet32")
    loop = lambda images, batch_size, steps: (len(images) + batch_size + steps) / 1000  # noqa: E731
    m = speed.measure_images("resnet32", 2, batch_size=4, sizes=(2, shape), baseline=loop)
    assert m.plain == pytest.approx(170 + 4 + 2 * speed.ROUNDS)
    assert (m.network, m.runs, m.device, m.gigabytes) == ("resnet32", 2, "cpu", 0.0)
    assert m.step > m.view >= 0
    assert m.run_seconds == pytest.approx(20 * m.step + 0.2 * m.record)


def test_the_plain_loop_trains_a_residual_network():
    loop = speed.load_baseline(speed.BASELINE, "seconds_per_image_step")
    images = torch.zeros(8, 3, 32, 32, dtype=torch.uint8)
    assert loop(images, 2, 1) > 0


def test_a_baseline_defines_the_function(tmp_path):
    (tmp_path / "empty.py").write_text("")
    for file, code in (("missing.py", "missing-file"), ("empty.py", "wrong-format")):
        with pytest.raises(UserError) as caught:
            speed.load_baseline(tmp_path / file)
        assert caught.value.code == code


@pytest.mark.parametrize("words", ["--runs 0,1", "--network resnet50", "--algorithms nnqu"])
def test_wrong_options_end_with_exit_code_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        speed.main(words.split())
    assert caught.value.code == 2
    assert words.split()[1] in capsys.readouterr().err
