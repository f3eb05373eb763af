"""Image datasets: CIFAR-10 batches and ImageNette folders made here, what is kept of them, the real files if here."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import pickle
import pickletools
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from old_pickles import batch, old_pickle
from puarena import datasets
from puarena.cli import app
from puarena.datasets import download, image_cache, image_files
from puarena.datasets.builtin import cifar10, imagenette
from puarena.errors import UserError
from puarena.pu import Problem, draw_pu_data

REAL = os.environ.get(download.ENVIRONMENT)
WNIDS = list(imagenette.COUNTS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder of the test, and no variable of the user."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(download.CACHE_ENVIRONMENT, str(folder))
    monkeypatch.delenv(download.ENVIRONMENT, raising=False)
    monkeypatch.setenv(
        imagenette.SKIP_ENVIRONMENT, ""
    )  # set, so that it is put back after a test of the command line
    monkeypatch.setattr(download, "_retrieve", None)  # no network in a test
    datasets.registry._load_built_in.cache_clear()
    yield folder
    datasets.registry._load_built_in.cache_clear()


def call(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def sentence(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


# What a dataset is


def test_bytes_stay_bytes_and_numbers_become_floats():
    images = np.zeros((4, 3, 5, 5), np.uint8)
    parts = {"train": np.arange(2), "test": np.arange(2, 4)}
    dataset = datasets.dataset.from_info(cifar10.INFO, images, np.arange(4), **parts)
    assert dataset.features.dtype == np.uint8
    assert dataset.evaluation is None
    assert (
        datasets.dataset.from_info(
            cifar10.INFO, images.astype(float), np.arange(4), **parts
        ).features.dtype
        == "f4"
    )


def test_revision_covers_what_evaluation_sees():
    images, parts = (
        np.zeros((4, 3, 5, 5), np.uint8),
        {"train": np.arange(2), "test": np.arange(2, 4)},
    )
    seen = images.copy()
    revisions = {datasets.dataset.from_info(cifar10.INFO, images, np.arange(4), **parts).revision}
    revisions.add(
        datasets.dataset.from_info(
            cifar10.INFO, images, np.arange(4), **parts, evaluation=seen
        ).revision
    )
    seen[3, 2, 4, 4] = 1
    revisions.add(
        datasets.dataset.from_info(
            cifar10.INFO, images, np.arange(4), **parts, evaluation=seen
        ).revision
    )
    assert len(revisions) == 3


def test_revisions_of_numbers_are_what_they_were():
    digits = datasets.load("digits")
    text = repr((digits.features.shape, digits.class_names)).encode()
    expected = hashlib.sha256(
        text + digits.features.tobytes() + digits.classes.tobytes() + b"--"
    ).hexdigest()
    assert digits.revision == expected[:12]


# CIFAR-10


def test_batches_made_here_are_like_the_official_ones():
    names = {arg for op, arg, _ in pickletools.genops(old_pickle(batch())) if op.name == "GLOBAL"}
    assert names == {"numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}
    assert not {op.name for op, *_ in pickletools.genops(old_pickle(batch()))} & {
        "BINUNICODE",
        "BINBYTES",
    }


@pytest.mark.parametrize(
    "packed", [old_pickle, lambda content: pickle.dumps(content, 4)], ids=["official", "numpy 2"]
)
def test_a_batch(tmp_path, packed):
    content = batch()
    (tmp_path / "b").write_bytes(packed(content))
    images, labels = cifar10.read_batch(tmp_path / "b")
    assert images.shape == (4, 3, 32, 32)
    assert list(labels) == content[b"labels"]
    for image, channel, row, column in ((0, 0, 0, 1), (1, 1, 0, 0), (3, 2, 31, 5)):
        assert (
            images[image, channel, row, column]
            == content[b"data"][image, channel * 1024 + row * 32 + column]
        )


def test_cifar10_from_its_files(tmp_path, monkeypatch):
    batches = [batch(3 + k, k) for k in range(6)]
    files = []
    for file, content in zip(cifar10.INFO.files, [*batches, {}], strict=True):
        path = tmp_path / "cifar10" / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(old_pickle(content))
        files.append(replace(file, sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    monkeypatch.setattr(cifar10, "INFO", replace(cifar10.INFO, files=tuple(files)))
    dataset = datasets.load("cifar10", tmp_path)
    assert dataset.features.dtype == np.uint8
    assert dataset.features.flags.writeable
    assert (
        dataset.features.reshape(-1, 3072) == np.concatenate([b[b"data"] for b in batches])
    ).all()
    assert list(dataset.classes) == [label for b in batches for label in b[b"labels"]]
    assert list(dataset.train) == list(range(25))
    assert list(dataset.test) == list(range(25, 33))

    (tmp_path / "cifar10/cifar-10-batches-py/data_batch_2").write_bytes(old_pickle(batch(9)))
    with pytest.raises(UserError, match="data_batch_2 has the wrong checksum"):
        cifar10.read(tmp_path)


def changed(**changes) -> bytes:
    return old_pickle(batch() | {key.encode(): value for key, value in changes.items()})


def lying() -> bytes:
    """A batch whose array says that it has fewer bytes than it has."""
    content = batch()
    content[b"labels"] = content[b"labels"][:3]
    return old_pickle(content).replace(b"K\x04M\x00\x0c", b"K\x03M\x00\x0c")


WRONG = {
    "no pickle": (b"hello", "it is no pickle, or damaged"),
    "empty": (b"", "it is no pickle, or damaged"),
    "cut short": (old_pickle(batch())[:-3000], "it is no pickle, or damaged"),
    "a list": (old_pickle([1, 2]), "it is no dictionary with 'data' and 'labels'"),
    "no labels": (
        old_pickle({b"data": batch()[b"data"]}),
        "it is no dictionary with 'data' and 'labels'",
    ),
    "a message of two lines": (b"Pabc\n.", "it is no pickle, or damaged"),
    "unhashable": (b"\x80\x02}]K\x01s.", "it is no pickle, or damaged"),
    "16 bits": (
        changed(data=np.zeros((4, 3072), np.int16)),
        "'data' must be bytes .* of type b'i2'",
    ),
    "signed": (changed(data=np.zeros((4, 3072), np.int8)), "12288 bytes of type b'i1'"),
    "shape": (
        changed(data=np.zeros((4, 3071), np.uint8)),
        r"shape \[4, 3072\] .* 12284 bytes .* shape \[4, 3071\]",
    ),
    "by column": (changed(data=np.zeros((4, 3072), np.uint8, order="F")), "not stored row by row"),
    "too few images": (
        changed(data=batch()[b"data"][:3]),
        r"shape \[4, 3072\] as there are 4 labels",
    ),
    "more bytes than told": (lying(), r"must be bytes of shape \[3, 3072\] .* it is 12288 bytes"),
    "text for data": (changed(data=b"x" * 99), "'data' must be an array, and it is of type bytes"),
    "label 10": (
        changed(labels=[1, 2, 3, 10]),
        "'labels' must be a list of whole numbers from 0 to 9",
    ),
    "label of text": (
        changed(labels=[1, 2, 3, b"4"]),
        "'labels' must be a list of whole numbers from 0 to 9",
    ),
    "labels of text": (
        changed(labels=b"1234"),
        "'labels' must be a list of whole numbers from 0 to 9",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_a_batch(tmp_path, case):
    content, what = WRONG[case]
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(UserError, match=what) as caught:
        cifar10.read_batch(path)
    assert sentence(caught).startswith(f"'{path}' is not a batch of CIFAR-10: ")
    assert "cifar-10-python.tar.gz" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "numpy.load", "numpy.core.multiarray.fromfile"]
)
def test_a_pickle_calls_nothing(tmp_path, name):
    module, _, function = name.rpartition(".")
    path = tmp_path / "b"
    path.write_bytes(
        b"\x80\x02" + f"c{module}\n{function}\nX".encode() + struct.pack("<I", 4) + b"true\x85R."
    )
    with pytest.raises(UserError, match=f"it asks for '{name}', which no batch needs"):
        cifar10.read_batch(path)


# ImageNette: making it


def picture(width: int = 90, height: int = 80, seed: int = 0, form: str = "PNG") -> bytes:
    pixels = np.random.default_rng(seed).integers(
        0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8
    )
    return saved(Image.fromarray(pixels).resize((width, height)), form)


def saved(image: Image.Image, form: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def pictures() -> dict[str, bytes]:
    """Two images of every class for training and one for testing, by their paths."""
    names = [f"train/{wnid}/{wnid}_{k}.JPEG" for wnid in WNIDS for k in (10, 9)] + [
        f"val/{w}/v.JPEG" for w in WNIDS
    ]
    return {name: picture(seed=k, form="JPEG") for k, name in enumerate(names)}


def in_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def in_zip(path: Path, files: dict[str, bytes], prefix: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in reversed(files.items()):
            packed.writestr(prefix + name, content)
    return path


def in_tgz(path: Path, files: dict[str, bytes], prefix: str = "imagenette2/") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as packed:
        for name, content in reversed(files.items()):
            entry = tarfile.TarInfo(prefix + name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def small(monkeypatch):
    """ImageNette has two images of every class for training and one for testing."""
    monkeypatch.setattr(imagenette, "COUNTS", dict.fromkeys(WNIDS, (2, 1)))


@pytest.fixture
def here(tmp_path, small) -> Path:
    """A data folder with such an ImageNette as a folder."""
    in_folder(tmp_path / "data" / "imagenette2", pictures())
    return tmp_path / "data"


def fresh(folder: Path):
    """Load as a new process would."""
    datasets.registry._load_built_in.cache_clear()
    return datasets.load("imagenette", folder)


@pytest.fixture
def no_decoding(monkeypatch):
    def stop():
        def decoded(*args):
            raise AssertionError("decoded again")

        monkeypatch.setattr(image_files, "decoded", decoded)

    return stop


# ImageNette: reading it

PLACES = {
    "own folder": lambda root, files: in_folder(root / "imagenette" / "imagenette2-160", files),
    "named folder": lambda root, files: in_folder(root / "imagenette2", files),
    "bare own folder": lambda root, files: in_folder(root / "imagenette", files).parent,
    "bare named folder": in_folder,
    "tgz": lambda root, files: in_tgz(root / "imagenette2-320.tgz", files, "imagenette2-320/"),
    "tgz with dots": lambda root, files: in_tgz(
        root / "imagenette" / "imagenette2.tgz", files, "./imagenette2/"
    ),
    "zip": lambda root, files: in_zip(root / "imagenette" / "imagenette2_small.zip", files),
    "zip with a folder": lambda root, files: in_zip(
        root / "imagenette2.zip", files, "imagenette2/"
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_form_gives_the_same(tmp_path, small, place):
    files = pictures()
    extra = {
        "labels.csv": b"split,label",
        "train/.DS_Store": b"",
        "train/n01440764/._n.JPEG": b"no image",
    }
    extra["train/n01440764/notes.txt"] = b"no image either"
    PLACES[place](tmp_path / "data", files | extra)
    dataset = datasets.load("imagenette", tmp_path / "data")
    assert dataset.features.shape == (30, 3, 73, 73)
    assert dataset.evaluation.shape == (30, 3, 64, 64)
    assert dataset.features.dtype == dataset.evaluation.dtype == np.uint8
    assert list(dataset.classes) == [k for k in range(10) for _ in range(2)] + list(range(10))
    assert (list(dataset.train), list(dataset.test)) == (list(range(20)), list(range(20, 30)))
    for row, name in enumerate(
        sorted(files)
    ):  # training part first, then by class and name: …_10 before …_9
        image = Image.open(io.BytesIO(files[name]))
        expected = np.asarray(image.resize((73, 73), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
        assert (dataset.features[row] == expected).all()


def test_from_the_cache_folder_and_by_the_environment(tmp_path, small, cache, monkeypatch):
    in_zip(cache / "imagenette" / "imagenette2.zip", pictures())
    assert len(datasets.load("imagenette").classes) == 30
    in_folder(tmp_path / "mine" / "imagenette2", pictures())
    monkeypatch.setenv(download.ENVIRONMENT, str(tmp_path / "mine"))
    assert datasets.verify("imagenette")[0].path == tmp_path / "mine" / "imagenette2"


def test_a_changed_variable_is_seen_by_the_same_process(here, cache, tmp_path, monkeypatch):
    damage(here)
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "1")
    datasets.load("imagenette", here)
    monkeypatch.setenv(download.CACHE_ENVIRONMENT, str(tmp_path / "other"))
    datasets.load("imagenette", here)
    assert len(list((tmp_path / "other" / "imagenette").iterdir())) == 1
    monkeypatch.setenv(download.CACHE_ENVIRONMENT, str(tmp_path / "third"))
    monkeypatch.delenv(imagenette.SKIP_ENVIRONMENT)
    with pytest.raises(UserError, match="cannot be decoded"):
        datasets.load("imagenette", here)


def test_full_size_is_preferred(tmp_path):
    for name in (
        "imagenette2-160.tgz",
        "imagenette2.tgz",
        "imagenette2-320.tgz",
        "imagenette2_x.zip",
    ):
        (tmp_path / name).touch()
    assert imagenette.find(tmp_path).name == "imagenette2.tgz"
    for name in ("imagenette2-160", "imagenette2-320"):
        (tmp_path / name).mkdir()
    assert imagenette.find(tmp_path).name == "imagenette2-320"


def test_none_is_here(tmp_path):
    with pytest.raises(
        UserError,
        match=r"no checksum of 'imagenette2\.tgz' is known, so it is not downloaded; get it",
    ):
        datasets.load("imagenette", tmp_path)


@pytest.mark.parametrize("pack", [in_zip, in_tgz])
def test_names_in_an_archive_reach_no_disk(tmp_path, small, cache, pack):
    files = pictures()
    first = next(iter(files))
    evil = {
        f"../{first}": files.pop(first),
        "../../../evil.JPEG": b"x",
        "/tmp/evil/train/n01440764/e.JPEG": b"x",
    }
    name = "imagenette2.zip" if pack is in_zip else "imagenette2.tgz"
    pack(tmp_path / "data" / name, files | evil, "")
    assert len(datasets.load("imagenette", tmp_path / "data").classes) == 30
    (kept_file,) = (cache / "imagenette").iterdir()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {
        tmp_path / "data" / name,
        kept_file,
    }
    assert not Path("/tmp/evil").exists()


@pytest.mark.parametrize("pack", [in_zip, in_tgz])
def test_a_damaged_archive(tmp_path, small, pack):
    path = pack(tmp_path / ("imagenette2.zip" if pack is in_zip else "imagenette2.tgz"), pictures())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(
        UserError, match=r"cannot be read, it may be damaged \(.*\); get it again"
    ) as caught:
        datasets.load("imagenette", tmp_path)
    assert str(path) in sentence(caught)
    path.write_bytes(b"hello")
    with pytest.raises(UserError, match="cannot be read"):
        datasets.load("imagenette", tmp_path)


def changed_zip(path: Path, at: int, value: int) -> None:
    """Change a byte of the first entry of a zip's list of members."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + at] = value
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "at, value", [(6, 200), (46, 255)], ids=["an unknown version", "a name that is no text"]
)
def test_a_damaged_list_of_members(tmp_path, small, at, value):
    path = in_zip(tmp_path / "imagenette2.zip", pictures())
    changed_zip(path, 9, 8)  # names are UTF-8
    assert len(datasets.load("imagenette", tmp_path).classes) == 30
    changed_zip(path, at, value)
    with pytest.raises(UserError, match="cannot be read, it may be damaged"):
        fresh(tmp_path)


@pytest.mark.parametrize("damage", ["a changed bit", "cut short after the last image"])
def test_the_checksum_of_a_tgz_is_looked_at(tmp_path, small, damage):
    path = in_tgz(tmp_path / "imagenette2.tgz", pictures())
    raw = bytearray(
        gzip.compress(gzip.decompress(path.read_bytes()), 0)
    )  # so that the change is no error of zlib
    raw[len(raw) // 2] ^= damage == "a changed bit"
    path.write_bytes(raw if damage == "a changed bit" else raw[:-8])
    with pytest.raises(UserError, match="cannot be read, it may be damaged"):
        datasets.load("imagenette", tmp_path)


def test_a_zip_with_backslashes(tmp_path, small):
    path = in_zip(tmp_path / "imagenette2.zip", pictures(), "imagenette2/")
    raw = path.read_bytes()
    for name in pictures():
        raw = raw.replace(
            f"imagenette2/{name}".encode(), f"imagenette2/{name}".replace("/", "\\").encode()
        )
    path.write_bytes(raw)
    assert len(datasets.load("imagenette", tmp_path).classes) == 30


def test_wrong_class_folders(here):
    train = here / "imagenette2" / "train"
    (train / WNIDS[3]).rename(train / "n99999999")
    with pytest.raises(
        UserError, match="'train' must have images in the folders n01440764, n02102040"
    ) as caught:
        datasets.load("imagenette", here)
    for part in (
        str(here / "imagenette2"),
        "is not ImageNette",
        "has them in",
        "and 5 more",
        imagenette.URL,
    ):
        assert part in sentence(caught)
    for wnid in WNIDS[6:]:
        shutil.rmtree(train / wnid)
    with pytest.raises(
        UserError, match=f"has them in {', '.join([*WNIDS[:3], *WNIDS[4:6]])} and 1 more"
    ):
        datasets.load("imagenette", here)
    shutil.rmtree(here / "imagenette2" / "val")
    shutil.rmtree(train)
    with pytest.raises(UserError, match="and it has them in none"):
        datasets.load("imagenette", here)


def test_a_class_folder_that_is_missing_is_no_matter_of_skipping(here, monkeypatch):
    shutil.rmtree(here / "imagenette2" / "val" / WNIDS[0])
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "1")
    with pytest.raises(UserError, match="'val' must have images in the folders"):
        datasets.load("imagenette", here)


# ImageNette: decoding


@pytest.mark.parametrize(
    "size, resized, corner",  # by torchvision's formulas: int(73 * long / short), then round half to even
    [
        ((500, 375), (97, 73), (16, 4)),
        ((375, 500), (73, 97), (4, 16)),
        ((75, 73), (75, 73), (6, 4)),
        ((100, 99), (73, 73), (4, 4)),
        ((20, 30), (73, 109), (4, 22)),
        ((73, 73), (73, 73), (4, 4)),
    ],
)
def test_sizes(size, resized, corner):
    content = picture(*size)
    squashed, seen = image_files.decode(content)
    image = Image.open(io.BytesIO(content))
    left, top = corner
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop(
        (left, top, left + 64, top + 64)
    )
    assert (seen == np.asarray(expected).transpose(2, 0, 1)).all()
    assert (
        squashed == np.asarray(image.resize((73, 73), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    ).all()


@pytest.mark.parametrize("size", [(8000, 90), (90, 8000)])
def test_a_very_long_image_is_not_resized_as_a_whole(size, monkeypatch):
    content = picture(*size)
    monkeypatch.setattr(image_files, "LONG", 1000)
    _, expected = image_files.decode(content)
    monkeypatch.undo()
    _, seen = image_files.decode(content)
    assert np.abs(seen.astype(int) - expected).max() <= 1

    sides, resize = [], Image.Image.resize
    monkeypatch.setattr(
        Image.Image,
        "resize",
        lambda image, to, *more: sides.append(max(to)) or resize(image, to, *more),
    )
    image_files.decode(content)
    assert max(sides) == 73


def palette() -> bytes:
    image = Image.new("P", (80, 80), 1)
    image.putpalette([0, 0, 0, 200, 100, 50])
    return saved(image, transparency=bytes([128, 0]))


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image = Image.new("RGB", (80, 80))
    image.paste((250, 250, 250), (0, 0, 80, 40))
    return saved(image, "JPEG", exif=exif)


MODES = {
    "gray": (saved(Image.new("L", (80, 80), 77)), (77, 77, 77)),
    "gray with alpha": (saved(Image.new("LA", (80, 80), (77, 0))), (77, 77, 77)),
    "one bit": (saved(Image.new("1", (80, 80), 1)), (255, 255, 255)),
    "16 bits": (saved(Image.fromarray(np.full((80, 80), 77 * 256 + 9, np.uint16))), (77, 77, 77)),
    "alpha": (saved(Image.new("RGBA", (80, 80), (200, 100, 50, 0))), (200, 100, 50)),
    "palette with transparency": (palette(), (200, 100, 50)),
    "cmyk": (
        saved(Image.new("CMYK", (80, 80), (55, 155, 205, 0)), "JPEG", quality=100),
        (200, 100, 50),
    ),
    "tiff of 16 bits": (
        saved(Image.fromarray(np.full((80, 80), 77 * 256, np.uint16)), "TIFF"),
        (77, 77, 77),
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_becomes_rgb(mode):
    content, color = MODES[mode]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        squashed, seen = image_files.decode(content)
    for pixels in (squashed, seen):
        assert np.abs(pixels.astype(int) - np.array(color)[:, None, None]).max() <= 2


def test_an_image_is_not_turned():
    squashed, _ = image_files.decode(turned())
    assert squashed[:, :30].min() > 240
    assert squashed[:, -30:].max() < 10


# ImageNette: images that are missing or damaged


def test_missing_images(here, monkeypatch, capsys):
    (here / "imagenette2" / "train" / WNIDS[2] / f"{WNIDS[2]}_9.JPEG").unlink()
    shutil.copy(
        here / "imagenette2" / "val" / WNIDS[0] / "v.JPEG",
        here / "imagenette2" / "val" / WNIDS[0] / "w.JPEG",
    )
    with pytest.raises(UserError) as caught:
        datasets.load("imagenette", here)
    for part in (
        f"'{here / 'imagenette2'}' is not the whole of ImageNette",
        f"train/{WNIDS[2]} has 1 images instead of 2, val/{WNIDS[0]} has 2 images instead of 1",
        "PUARENA_SKIP_BAD_IMAGES=1",
        "puarena data prepare imagenette --skip-bad-images",
    ):
        assert part in sentence(caught)
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "1")
    dataset = datasets.load("imagenette", here)
    assert list(np.bincount(dataset.classes[dataset.train])) == [2, 2, 1, 2, 2, 2, 2, 2, 2, 2]
    assert f"train/{WNIDS[2]} has 1 images instead of 2" in capsys.readouterr().err


def damage(here: Path, count: int = 1) -> list[str]:
    """Cut images short."""
    folder = here / "imagenette2"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("train/*/*"))[:count]
    for name in names:
        (folder / name).write_bytes((folder / name).read_bytes()[:-200])
    return names


def test_damaged_images(here, cache, monkeypatch, capsys, no_decoding):
    names = damage(here, 2)
    with pytest.raises(
        UserError, match=f"{names[0]} cannot be decoded, {names[1]} cannot be decoded; get it again"
    ):
        datasets.load("imagenette", here)
    assert not cache.exists()
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "1")
    dataset = datasets.load("imagenette", here)
    assert list(np.bincount(dataset.classes[dataset.train])) == [0] + [2] * 9
    assert list(np.bincount(dataset.classes[dataset.test])) == [1] * 10
    expected, _ = image_files.decode(
        (here / "imagenette2" / "val" / WNIDS[0] / "v.JPEG").read_bytes()
    )
    assert (dataset.features[dataset.test[0]] == expected).all()
    assert names[1] in capsys.readouterr().err

    no_decoding()  # told once, and said every time
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "0")
    assert fresh(here).revision == dataset.revision
    assert capsys.readouterr().err.count(names[1]) == 1


def test_many_damaged_images_are_counted(here, monkeypatch, capsys):
    names = damage(here, 12)
    with pytest.raises(
        UserError, match=f": {' cannot be decoded, '.join(names[:5])} cannot be decoded and 7 more;"
    ):
        datasets.load("imagenette", here)
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "1")
    datasets.load("imagenette", here)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(name in said for name in names)


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_link_to_nothing_is_a_damaged_image(here, monkeypatch):
    file = here / "imagenette2" / "train" / WNIDS[0] / f"{WNIDS[0]}_9.JPEG"
    file.unlink()
    file.symlink_to(here / "nothing")
    with pytest.raises(UserError, match=f": train/{WNIDS[0]}/{WNIDS[0]}_9.JPEG cannot be decoded;"):
        datasets.load("imagenette", here)
    monkeypatch.setenv(imagenette.SKIP_ENVIRONMENT, "1")
    assert len(datasets.load("imagenette", here).classes) == 29


def test_a_damaged_member_packed_with_lzma(tmp_path, small):
    path = tmp_path / "imagenette2.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as packed:
        for name, content in pictures().items():
            packed.writestr(name, content)
    first = packed.infolist()[0]
    raw = bytearray(path.read_bytes())
    for at in range(first.header_offset + 100, first.header_offset + 140):
        raw[at] ^= 0x5A
    path.write_bytes(raw)
    with pytest.raises(UserError, match=f": {first.filename} cannot be decoded;"):
        datasets.load("imagenette", tmp_path)


def test_a_damaged_member_of_a_zip(tmp_path, small):
    files = pictures()
    path = in_zip(tmp_path / "imagenette2.zip", files)
    name, content = list(files.items())[4]
    raw = path.read_bytes()
    at = raw.index(content) + 300
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 255]) + raw[at + 1 :])
    with pytest.raises(UserError, match=f": {name} cannot be decoded;"):
        datasets.load("imagenette", tmp_path)


def test_a_file_too_large_for_a_photograph(tmp_path, small, monkeypatch):
    files = pictures() | {f"train/{WNIDS[0]}/{WNIDS[0]}_9.JPEG": picture(600, 600)}
    monkeypatch.setattr(image_files, "LARGEST", 10_000)
    for pack, name in ((in_zip, "imagenette2.zip"), (in_tgz, "imagenette2.tgz")):
        path = pack(tmp_path / name, files)
        with pytest.raises(
            UserError, match=f": train/{WNIDS[0]}/{WNIDS[0]}_9.JPEG cannot be decoded;"
        ):
            fresh(tmp_path)
        path.unlink()


# ImageNette: what is kept


def test_decoded_once(here, cache, no_decoding):
    first = datasets.load("imagenette", here)
    no_decoding()
    again = fresh(here)
    assert again is not first
    for name in ("features", "evaluation", "classes", "train", "test", "revision"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert again.features.flags.writeable
    (path,) = (cache / "imagenette").iterdir()
    assert datasets.cache_file("imagenette", here) == path
    assert datasets.cache_file("digits") is None


DAMAGES = {
    "a changed pixel": lambda raw: raw[:-100_000] + bytes([raw[-100_000] ^ 1]) + raw[-99_999:],
    "a changed class": lambda raw: raw[:-31] + bytes([raw[-31] ^ 1]) + raw[-30:],
    "cut short": lambda raw: raw[:-1],
    "empty": lambda raw: b"",
    "something else": lambda raw: b"hello" * 100,
    "without notes": lambda raw: raw.replace(b'"notes"', b'"nodes"'),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_is_discarded(here, cache, capsys, case):
    first = datasets.load("imagenette", here)
    (path,) = (cache / "imagenette").iterdir()
    raw = path.read_bytes()
    path.write_bytes(DAMAGES[case](raw))
    assert path.read_bytes() != raw
    capsys.readouterr()
    again = fresh(here)
    assert f"'{path}' is damaged: it is discarded" in capsys.readouterr().err
    assert again.revision == first.revision
    assert path.stat().st_size == len(raw)
    fresh(here)
    assert capsys.readouterr().err == ""


def replaced(file: Path) -> None:
    content, stat = picture(seed=99, form="JPEG"), file.stat()
    file.write_bytes(content + bytes(1))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


CHANGES = {
    "size": replaced,
    "time": lambda file: os.utime(file, ns=(1, 1)),
    "name": lambda file: file.rename(file.with_name("w.JPEG")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_source_is_decoded_anew(here, cache, capsys, change):
    first = datasets.load("imagenette", here)
    (old,) = (cache / "imagenette").iterdir()
    CHANGES[change](here / "imagenette2" / "val" / WNIDS[0] / "v.JPEG")
    again = fresh(here)
    assert f"'{old}' was made from another source or with other settings" in capsys.readouterr().err
    assert len(list((cache / "imagenette").iterdir())) == 1
    assert not old.exists()
    assert (again.revision != first.revision) == (change == "size")
    (file,) = (here / "imagenette2" / "val" / WNIDS[0]).iterdir()
    assert (again.features[again.test[0]] == image_files.decode(file.read_bytes())[0]).all()


def test_other_settings_are_decoded_anew(here, cache, capsys, monkeypatch):
    about = imagenette._about
    with monkeypatch.context() as patch:
        patch.setattr(imagenette, "_about", lambda source: about(source) | {"format": 0})
        datasets.load("imagenette", here)
    (old,) = (cache / "imagenette").iterdir()
    fresh(here)
    assert str(old) in capsys.readouterr().err
    assert not old.exists()
    (new,) = (cache / "imagenette").iterdir()
    old.write_bytes(new.read_bytes())  # under the name of other settings
    assert image_cache.load(old, about(here / "imagenette2") | {"format": 0}) is None


@pytest.mark.parametrize("where", ["decode", "fsync"])
def test_an_interrupt_leaves_nothing(here, cache, monkeypatch, where):
    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(image_files if where == "decode" else os, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            datasets.load("imagenette", here)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    assert len(fresh(here).classes) == 30


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_a_kill_leaves_nothing_that_is_used(here, cache):
    code = (
        "import os, signal\nfrom puarena import datasets\nfrom puarena.datasets.builtin import imagenette\n"
        "imagenette.COUNTS = dict.fromkeys(imagenette.COUNTS, (2, 1))\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"datasets.load('imagenette', {str(here)!r})"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    (left,) = (cache / "imagenette").iterdir()
    assert left.suffix == ".tmp"
    assert len(datasets.load("imagenette", here).classes) == 30
    assert left.exists()  # it may be another process's
    os.utime(left, (1, 1))
    for old in (cache / "imagenette").glob("*.safetensors"):
        old.unlink()
    fresh(here)
    assert [path.suffix for path in (cache / "imagenette").iterdir()] == [".safetensors"]


def test_too_little_space_is_said_before_decoding(here, cache, monkeypatch, no_decoding):
    no_decoding()
    needed = 30 * (3 * 73 * 73 + 3 * 64 * 64 + 2)
    usage = shutil.disk_usage(here)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=needed - 1))
    with pytest.raises(
        UserError, match=r"need 1 MB in '.*' and 1 MB are free; .* PUARENA_CACHE"
    ) as caught:
        datasets.load("imagenette", here)
    assert str(cache / "imagenette") in sentence(caught)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=needed))
    with pytest.raises(AssertionError, match="decoded again"):
        datasets.load("imagenette", here)


def failing(number: int):
    def fsync(handle):
        raise OSError(number, os.strerror(number))

    return fsync


def test_a_disk_that_fills_up(here, cache, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(
        UserError,
        match=r"the decoded images need 1 MB in '.*' and [\d,]+ MB are free; .* PUARENA_CACHE",
    ):
        datasets.load("imagenette", here)
    assert list((cache / "imagenette").iterdir()) == []


@pytest.mark.parametrize("why", ["a file in the way", "a disk with errors"])
def test_a_cache_that_cannot_be_written_is_no_error(here, cache, monkeypatch, capsys, why):
    if why == "a file in the way":
        cache.write_text("a file where a folder should be")
    else:
        monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    assert len(datasets.load("imagenette", here).classes) == 30
    said = capsys.readouterr().err
    assert f"the decoded images cannot be saved in '{cache / 'imagenette'}'" in said
    assert "PUARENA_CACHE" in said
    assert said.count("\n") == 1
    assert datasets.cache_file("imagenette", here) is None


# The command line


def test_prepare(here, cache):
    result = call("data", "prepare", "imagenette", "digits", "--data", here)
    assert result.exit_code == 0, result.output
    (path,) = (cache / "imagenette").iterdir()
    assert (
        result.stdout == f"imagenette: 30 x 3 x 73 x 73, kept in {path} (1 MB)\ndigits: 1797 x 64\n"
    )


def test_prepare_reads_own_data_too(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,a\n2,b\n" * 20)
    (tmp_path / "own.yaml").write_text("file: t.csv\nlabel: y\npositive: [a]\n")
    result = call("data", "prepare", tmp_path / "own.yaml")
    assert result.stdout == f"{tmp_path / 'own.yaml'}: 40 x 1\n"


def test_prepare_without_bad_images(here):
    (name,) = damage(here)
    result = call("data", "prepare", "imagenette", "--data", here)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert name in result.stderr
    result = call("data", "prepare", "imagenette", "--data", here, "--skip-bad-images")
    assert result.exit_code == 0
    assert "29 x 3 x 73 x 73" in result.stdout
    assert name in result.stderr


@pytest.mark.parametrize("pack", [in_folder, in_zip])
def test_list_fetch_and_verify_know_a_local_copy(tmp_path, small, pack):
    assert call("data", "fetch", "imagenette", "--data", tmp_path).exit_code == 2
    assert "0 of 1 files here" in call("data", "list", "imagenette", "--data", tmp_path).stdout
    name = "imagenette2-160" if pack is in_folder else "imagenette2_x.zip"
    path = pack(tmp_path / name, pictures())
    listed = call("data", "list", "imagenette", "--data", tmp_path)
    assert "1 of 1 files here" in listed.stdout
    assert f"(found: {name})" in listed.stdout
    assert call("data", "fetch", "imagenette", "--data", tmp_path).stdout == f"imagenette: {path}\n"
    checked = call("data", "verify", "imagenette", "--data", tmp_path)
    assert checked.exit_code == 0
    assert checked.stdout.split() == ["imagenette", "no", "checksum", "known", str(path)]


def test_an_archive_is_known_by_its_own_bytes(tmp_path, small):
    """No archive has a checksum that is known beforehand; the runs of two different ones are not mixed up."""
    assert not datasets.is_pinned("imagenette")
    files = pictures()
    changed = files | {next(iter(files)): list(files.values())[-1]}
    revisions = {}
    for name, content in {"a": files, "b": changed, "c": files}.items():
        in_zip(tmp_path / name / "imagenette2_any-name.zip", content)
        revisions[name] = fresh(tmp_path / name).revision
    assert revisions["a"] == revisions["c"] != revisions["b"]


def test_the_cache_folder_can_be_named(cache, monkeypatch):
    assert download.cache_folder() == cache
    monkeypatch.delenv(download.CACHE_ENVIRONMENT)
    assert download.cache_folder() != cache


def test_pillow_is_imported_only_for_images():
    code = "import sys, puarena.datasets, puarena.cli; print([m for m in ('PIL', 'torch', 'safetensors') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# The real files


def real(path: str) -> str:
    if not REAL or not (Path(REAL) / path).exists():
        pytest.skip(f"set PUARENA_DATA to a folder with {path} to test the real files")
    return REAL


def test_real_cifar10():
    dataset = datasets.load("cifar10", real("cifar10/cifar-10-batches-py"))
    assert dataset.features.shape == (60000, 3, 32, 32)
    assert list(np.bincount(dataset.classes[dataset.train])) == [5000] * 10
    assert list(np.bincount(dataset.classes[dataset.test])) == [1000] * 10
    assert list(np.bincount(dataset.classes[:10000])) == [
        1005,
        974,
        1032,
        1016,
        999,
        937,
        1030,
        1001,
        1025,
        981,
    ]
    assert list(dataset.test[[0, -1]]) == [50000, 59999]
    means = dataset.features[:50000].mean((0, 2, 3)) / 255
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)
    for setting in ("os", "ts"):
        pu, _ = draw_pu_data(dataset, Problem("cifar10", 1, setting, 0.3), 0)
        assert (len(pu.p_train), len(pu.u_train)) == (5400, 12600)


def test_real_imagenette(cache, no_decoding):
    folder = real("imagenette")
    source = imagenette.find(Path(folder) / "imagenette")
    if source is None or source.suffix != ".zip":
        pytest.skip(
            "set PUARENA_DATA to a folder with a zip of imagenette2 in imagenette/ to test the real files"
        )
    dataset = datasets.load("imagenette", folder)
    assert dataset.features.shape == (13394, 3, 73, 73)
    assert dataset.evaluation.shape == (13394, 3, 64, 64)
    for part, column in ((dataset.train, 0), (dataset.test, 1)):
        assert [int(n) for n in np.bincount(dataset.classes[part])] == [
            c[column] for c in imagenette.COUNTS.values()
        ]
    assert [dataset.positive(case)[dataset.classes[dataset.test]].sum() for case in (1, 2)] == [
        1928,
        1946,
    ]
    with zipfile.ZipFile(source) as packed:
        names = sorted(name for name in packed.namelist() if name.endswith("JPEG"))
        for row in (0, 9468, 9469, 13393):
            image = Image.open(io.BytesIO(packed.read(names[row]))).convert("RGB")
            expected = np.asarray(image.resize((73, 73), Image.Resampling.BILINEAR)).transpose(
                2, 0, 1
            )
            assert (dataset.features[row] == expected).all()
            if image.size == (73, 73):  # a copy of reduced size has one shape for both
                assert (dataset.evaluation[row] == expected[:, 4:68, 4:68]).all()
    pu, _ = draw_pu_data(dataset, Problem("imagenette", 2, "ts", 0.5), 0)
    assert len(pu.p_train) + len(pu.p_val) == 2958
    assert [status.status for status in datasets.verify("imagenette", folder)] == [
        "no checksum known"
    ]
    no_decoding()
    assert fresh(folder).revision == dataset.revision
