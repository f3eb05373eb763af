"""Run everything that is published again, each by the command on its card, and publish it into a
folder of its own.

    python benchmarks/repeat.py [--list] [--results DIR] [--out DIR] [NAME ...]

All of ``results/`` unless names are given; ``--list`` prints the commands. Interrupted, it goes on
where it was. Last comes ``puarena compare``, with what is published.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from puarena.results.published import COMMUNITY, list_summaries, read_card

ROOT = Path(__file__).parents[1]
PUARENA = [sys.executable, "-m", "puarena"]


def commands(results: Path, out: Path, names: Sequence[str] = ()) -> dict[str, list[list[str]]]:
    """What to call for every published result: run, publish, compare; a spec that no command says
    is written down.
    """
    cards = {
        name: read_card(file)
        for name, file in list_summaries(results).items()
        if not name.startswith(f"{COMMUNITY}/")
    }
    unknown = [name for name in names if name not in cards]
    if unknown:
        raise SystemExit(f"'{results}' has no {', '.join(unknown)}; it has {', '.join(cards)}")
    calls = {}
    for name in names or cards:
        card, folder = cards[name], out / name
        words = shlex.split(card.command)[1:]
        if card.spec is not None:
            out.mkdir(parents=True, exist_ok=True)
            spec = out / f"{name.replace('/', '-')}.yaml"
            spec.write_text(yaml.safe_dump(card.spec, sort_keys=False), encoding="utf-8")
            words[words.index("SPEC.yaml")] = str(spec)
        words[words.index("RESULTS")] = str(folder)
        again = [
            "publish",
            str(folder),
            "--out",
            str(out / "results"),
            "--name",
            name.rpartition("/")[2],
            "--replace",
        ]
        beside = ["compare", str(folder), "--published", str(results / f"{name}.csv")]
        calls[name] = [[*PUARENA, *call] for call in (words, again, beside)]
    return calls


def main() -> None:
    """Call them one after the other; the first that fails ends it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--out", type=Path, default=Path("replication"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for name, calls in commands(given.results, given.out, given.names).items():
        for call in calls:
            print(f"{name}: puarena {shlex.join(call[len(PUARENA) :])}", flush=True)
            if not given.list:
                subprocess.run(call, check=True)


if __name__ == "__main__":
    main()
