"""Image datasets: CIFAR-10 batches and ImageNette folders made here, their cache, the real files."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pickle
import signal
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

from puarena import datasets
from puarena.cli import app
from puarena.datasets import download
from puarena.datasets.base import from_info
from puarena.datasets.builtin import cifar10, imagenette
from puarena.errors import UserError
from puarena.pu import Problem, draw_pu_data

REAL_DATA = os.environ.get(download.DATA_VARIABLE)
FOLDERS = list(imagenette.COUNTS)
N_IMAGES = 30


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder of the test, and no variable of the user."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(download.CACHE_VARIABLE, str(folder))
    monkeypatch.delenv(download.DATA_VARIABLE, raising=False)
    # Set, so that it is restored after a test of the command line.
    monkeypatch.setenv(download.SKIP_VARIABLE, "")
    monkeypatch.setattr(download, "_retrieve", None)  # no network in a test
    datasets._load_built_in.cache_clear()
    yield folder
    datasets._load_built_in.cache_clear()


def call(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def load_error(folder: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        load_again(folder)
    return caught.value


def load_again(folder: Path):
    """Load as a new process would."""
    datasets._load_built_in.cache_clear()
    return datasets.load("imagenette", folder)


# Records of images


def test_bytes_stay_bytes_and_numbers_become_floats():
    pixels = np.zeros((4, 3, 5, 5), np.uint8)
    parts = {"train": np.arange(2), "test": np.arange(2, 4)}
    assert from_info(cifar10.INFO, pixels, np.arange(4), **parts).features.dtype == np.uint8
    numbers = from_info(cifar10.INFO, pixels.astype(float), np.arange(4), **parts)
    assert numbers.features.dtype == np.float32


def test_the_revision_depends_on_the_images_of_evaluation():
    pixels = np.zeros((4, 3, 5, 5), np.uint8)
    other = pixels.copy()
    other[3, 2, 4, 4] = 1
    revisions = set()
    for evaluation in (None, pixels, other):
        parts = {"train": np.arange(2), "test": np.arange(2, 4), "evaluation": evaluation}
        revisions.add(from_info(cifar10.INFO, pixels, np.arange(4), **parts).revision)
    assert len(revisions) == 3


def test_the_revision_of_numbers_is_pinned():
    digits = datasets.load("digits")
    digest = hashlib.sha256(repr((digits.features.shape, digits.class_names)).encode())
    digest.update(digits.features.tobytes() + digits.classes.tobytes() + b"--")
    assert digits.revision == digest.hexdigest()[:12]


# CIFAR-10


def batch(n: int, seed: int) -> dict[bytes, object]:
    rng = np.random.default_rng(seed)
    labels = [int(label) for label in rng.integers(0, 10, n)]
    return {b"labels": labels, b"data": rng.integers(0, 256, (n, 3072), np.uint8)}


def write_batches(folder: Path, monkeypatch) -> list[dict[bytes, object]]:
    """Write batches where the reader looks, and make them the published ones."""
    batches = [batch(3 + k, k) for k in range(6)]
    files = []
    for file, content in zip(cifar10.INFO.files, batches, strict=True):
        path = folder / "cifar10" / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(content, 2))
        files.append(replace(file, sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    monkeypatch.setattr(cifar10, "INFO", replace(cifar10.INFO, files=tuple(files)))
    return batches


def test_cifar10_from_its_files(tmp_path, monkeypatch):
    batches = write_batches(tmp_path, monkeypatch)
    dataset = datasets.load("cifar10", tmp_path)
    assert dataset.features.dtype == np.uint8
    assert dataset.features.flags.writeable
    rows = np.concatenate([b[b"data"] for b in batches])
    assert (dataset.features.reshape(-1, 3072) == rows).all()
    assert dataset.features[1, 1, 0, 2] == rows[1, 1024 + 2]
    assert list(dataset.classes) == [label for b in batches for label in b[b"labels"]]
    assert list(dataset.train) == list(range(25))
    assert list(dataset.test) == list(range(25, 33))


@pytest.mark.parametrize("trusting", [False, True], ids=["at once", "when it was located"])
def test_a_changed_pickle_is_never_loaded(tmp_path, monkeypatch, trusting):
    write_batches(tmp_path, monkeypatch)
    file = cifar10.INFO.files[1]
    path = tmp_path / "cifar10" / file.name
    path.write_bytes(b"cos\nsystem\n(S'touch evil'\ntR.")
    if trusting:  # the file changes after `locate` has verified it
        monkeypatch.setattr(cifar10, "locate", lambda *args: path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        cifar10.read_batch(file, tmp_path)
    assert caught.value.code == "damaged-file"
    assert str(path) in str(caught.value)
    assert not (tmp_path / "evil").exists()


# ImageNette made here


def save(image: Image.Image, form: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def picture(width: int = 90, height: int = 80, seed: int = 0, form: str = "PNG") -> bytes:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    return save(Image.fromarray(pixels).resize((width, height)), form)


def pictures() -> dict[str, bytes]:
    """Two images of every class for training and one for testing, by their paths."""
    names = [f"train/{folder}/{folder}_{k}.JPEG" for folder in FOLDERS for k in (10, 9)]
    names += [f"val/{folder}/v.JPEG" for folder in FOLDERS]
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
    monkeypatch.setattr(imagenette, "COUNTS", dict.fromkeys(FOLDERS, (2, 1)))


@pytest.fixture
def here(tmp_path, small) -> Path:
    """A data folder with such an ImageNette as a folder."""
    in_folder(tmp_path / "data" / "imagenette2", pictures())
    return tmp_path / "data"


@pytest.fixture
def no_decoding(monkeypatch):
    def stop():
        def decode_images(*args):
            raise AssertionError("decoded again")

        monkeypatch.setattr(imagenette, "decode_images", decode_images)

    return stop


PLACES = {
    "own folder": lambda root, files: in_folder(root / "imagenette" / "imagenette2-160", files),
    "bare own folder": lambda root, files: in_folder(root / "imagenette", files).parent,
    "bare named folder": in_folder,
    "tgz": lambda root, files: in_tgz(root / "imagenette2-320.tgz", files, "imagenette2-320/"),
    "zip": lambda root, files: in_zip(root / "imagenette" / "imagenette2_small.zip", files),
    "zip with a folder": lambda root, files: in_zip(root / "imagenette2.zip", files, "a/"),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_form_gives_the_same(tmp_path, small, place):
    files = pictures()
    extra = {"labels.csv": b"split,label", "train/.DS_Store": b""}
    extra |= {"train/n01440764/._n.JPEG": b"no image", "train/n01440764/notes.txt": b"no image"}
    PLACES[place](tmp_path / "data", files | extra)
    dataset = datasets.load("imagenette", tmp_path / "data")
    assert dataset.features.shape == (N_IMAGES, 3, 73, 73)
    assert dataset.evaluation.shape == (N_IMAGES, 3, 64, 64)
    assert dataset.features.dtype == dataset.evaluation.dtype == np.uint8
    assert list(dataset.classes) == [k for k in range(10) for _ in range(2)] + list(range(10))
    assert (list(dataset.train), list(dataset.test)) == (list(range(20)), list(range(20, 30)))
    # The training part comes first, then by class and name: …_10 before …_9.
    for row, name in enumerate(sorted(files)):
        image = Image.open(io.BytesIO(files[name]))
        expected = np.asarray(image.resize((73, 73), Image.Resampling.BILINEAR))
        assert (dataset.features[row] == expected.transpose(2, 0, 1)).all()


def test_full_size_is_preferred(tmp_path):
    for name in ("imagenette2-160.tgz", "imagenette2.tgz", "imagenette2_x.zip"):
        (tmp_path / name).touch()
    assert imagenette.find(tmp_path).name == "imagenette2.tgz"
    for name in ("imagenette2-160", "imagenette2-320"):
        (tmp_path / name).mkdir()
    assert imagenette.find(tmp_path).name == "imagenette2-320"


def test_images_that_are_not_here(tmp_path):
    error = load_error(tmp_path)
    assert error.code == "missing-file"
    assert imagenette.URL in str(error)


@pytest.mark.parametrize("pack", [in_zip, in_tgz])
def test_names_in_an_archive_reach_no_disk(tmp_path, small, cache, pack):
    files = pictures()
    first = next(iter(files))
    evil = {f"../{first}": files.pop(first), "../../../evil.JPEG": b"x"}
    name = "imagenette2.zip" if pack is in_zip else "imagenette2.tgz"
    pack(tmp_path / "data" / name, files | evil, "")
    assert len(datasets.load("imagenette", tmp_path / "data").classes) == N_IMAGES
    (cache_file,) = (cache / "imagenette").iterdir()
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {tmp_path / "data" / name, cache_file}


@pytest.mark.parametrize("pack", [in_zip, in_tgz])
def test_a_damaged_archive(tmp_path, small, pack):
    path = pack(tmp_path / ("imagenette2.zip" if pack is in_zip else "imagenette2.tgz"), pictures())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    error = load_error(tmp_path)
    assert error.code == "damaged-file"
    assert str(path) in str(error)


def test_the_checksum_of_a_tgz_is_verified(tmp_path, small):
    path = in_tgz(tmp_path / "imagenette2.tgz", pictures())
    path.write_bytes(path.read_bytes()[:-8])  # cut short after the last image
    assert load_error(tmp_path).code == "damaged-file"


def test_wrong_class_folders(here, monkeypatch):
    monkeypatch.setenv(download.SKIP_VARIABLE, "1")  # which accepts missing images only
    train = here / "imagenette2" / "train"
    (train / FOLDERS[3]).rename(train / "n99999999")
    error = load_error(here)
    assert error.code == "wrong-format"
    for token in (str(here / "imagenette2"), FOLDERS[3], "and 5 more", imagenette.URL):
        assert token in str(error)


# Decoding


@pytest.mark.parametrize(
    "size, resized, corner",  # by torchvision's formulas: int(73 * long / short), half to even
    [
        ((500, 375), (97, 73), (16, 4)),
        ((375, 500), (73, 97), (4, 16)),
        ((75, 73), (75, 73), (6, 4)),
        ((20, 30), (73, 109), (4, 22)),
        ((73, 73), (73, 73), (4, 4)),
    ],
)
def test_sizes(size, resized, corner):
    content = picture(*size)
    squashed, seen = imagenette.decode_image(content)
    image = Image.open(io.BytesIO(content))
    left, top = corner
    box = (left, top, left + 64, top + 64)
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop(box)
    assert (seen == np.asarray(expected).transpose(2, 0, 1)).all()
    expected = image.resize((73, 73), Image.Resampling.BILINEAR)
    assert (squashed == np.asarray(expected).transpose(2, 0, 1)).all()


def palette() -> bytes:
    image = Image.new("P", (80, 80), 1)
    image.putpalette([0, 0, 0, 200, 100, 50])
    return save(image, transparency=bytes([128, 0]))


GRAY_16 = Image.fromarray(np.full((80, 80), 77 * 256 + 9, np.uint16))
MODES = {
    "gray": (save(Image.new("L", (80, 80), 77)), (77, 77, 77)),
    "gray with alpha": (save(Image.new("LA", (80, 80), (77, 0))), (77, 77, 77)),
    "one bit": (save(Image.new("1", (80, 80), 1)), (255, 255, 255)),
    "16 bits": (save(GRAY_16), (77, 77, 77)),
    "alpha": (save(Image.new("RGBA", (80, 80), (200, 100, 50, 0))), (200, 100, 50)),
    "palette with transparency": (palette(), (200, 100, 50)),
    "cmyk": (save(Image.new("CMYK", (80, 80), (55, 155, 205, 0)), "TIFF"), (200, 100, 50)),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_becomes_rgb(mode):
    content, color = MODES[mode]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        squashed, seen = imagenette.decode_image(content)
    for pixels in (squashed, seen):
        assert np.abs(pixels.astype(int) - np.array(color)[:, None, None]).max() <= 2


def test_an_orientation_is_not_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be rotated by 90 degrees
    image = Image.new("RGB", (80, 80))
    image.paste((250, 250, 250), (0, 0, 80, 40))
    squashed, _ = imagenette.decode_image(save(image, "JPEG", exif=exif))
    assert squashed[:, :30].min() > 240
    assert squashed[:, -30:].max() < 10


# Missing and damaged images


def test_missing_images(here, monkeypatch, caplog):
    (here / "imagenette2" / "train" / FOLDERS[2] / f"{FOLDERS[2]}_9.JPEG").unlink()
    error = load_error(here)
    assert error.code == "damaged-file"
    for token in (str(here / "imagenette2"), f"train/{FOLDERS[2]}", download.SKIP_VARIABLE):
        assert token in str(error)
    monkeypatch.setenv(download.SKIP_VARIABLE, "1")
    dataset = datasets.load("imagenette", here)
    assert list(np.bincount(dataset.classes[dataset.train])) == [2, 2, 1, 2, 2, 2, 2, 2, 2, 2]
    assert f"train/{FOLDERS[2]}" in caplog.text


def damage(here: Path, count: int = 1) -> list[str]:
    """Cut images short."""
    folder = here / "imagenette2"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("train/*/*"))[:count]
    for name in names:
        (folder / name).write_bytes((folder / name).read_bytes()[:-200])
    return names


def test_damaged_images(here, cache, monkeypatch, caplog, no_decoding):
    names = damage(here, 7)
    error = load_error(here)
    assert error.code == "damaged-file"
    assert all(name in str(error) for name in names[:5])
    assert "and 2 more" in str(error)
    assert not cache.exists()

    monkeypatch.setenv(download.SKIP_VARIABLE, "1")
    dataset = load_again(here)
    counts = list(np.bincount(dataset.classes[dataset.train], minlength=10))
    assert counts == [0, 0, 0, 1, 2, 2, 2, 2, 2, 2]
    file = here / "imagenette2" / "val" / FOLDERS[0] / "v.JPEG"
    expected, _ = imagenette.decode_image(file.read_bytes())
    assert (dataset.features[dataset.test[0]] == expected).all()
    assert all(name in caplog.text for name in names)

    # Once accepted, the cache is used and the missing images are named every time.
    no_decoding()
    monkeypatch.setenv(download.SKIP_VARIABLE, "0")
    caplog.clear()
    assert load_again(here).revision == dataset.revision
    assert names[6] in caplog.text


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_broken_link_is_a_damaged_image(here, monkeypatch):
    file = here / "imagenette2" / "train" / FOLDERS[0] / f"{FOLDERS[0]}_9.JPEG"
    file.unlink()
    file.symlink_to(here / "nothing")
    assert f"{FOLDERS[0]}_9.JPEG" in str(load_error(here))
    monkeypatch.setenv(download.SKIP_VARIABLE, "1")
    assert len(datasets.load("imagenette", here).classes) == N_IMAGES - 1


def test_a_damaged_member_of_a_zip(tmp_path, small):
    files = pictures()
    path = in_zip(tmp_path / "imagenette2.zip", files)
    name, content = list(files.items())[4]
    raw = bytearray(path.read_bytes())
    raw[raw.index(content) + 300] ^= 255
    path.write_bytes(raw)
    assert name in str(load_error(tmp_path))


# The cache


def test_images_are_decoded_once(here, cache, no_decoding):
    first = datasets.load("imagenette", here)
    no_decoding()
    again = load_again(here)
    assert again is not first
    for name in ("features", "evaluation", "classes", "train", "test", "revision"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert again.features.flags.writeable
    assert len(list((cache / "imagenette").iterdir())) == 1


DAMAGES = {
    "a changed pixel": lambda raw: raw[:-200_000] + bytes([raw[-200_000] ^ 1]) + raw[-199_999:],
    "cut short": lambda raw: raw[:-1],
    "empty": lambda raw: b"",
    "something else": lambda raw: b"hello" * 100,
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_cache_file_is_replaced(here, cache, caplog, case):
    first = datasets.load("imagenette", here)
    (path,) = (cache / "imagenette").iterdir()
    raw = path.read_bytes()
    path.write_bytes(DAMAGES[case](raw))
    again = load_again(here)
    assert str(path) in caplog.text
    assert again.revision == first.revision
    assert path.stat().st_size == len(raw)


def replace_image(file: Path) -> None:
    stat = file.stat()
    file.write_bytes(picture(seed=99, form="JPEG") + bytes(1))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


CHANGES = {
    "size": replace_image,
    "time": lambda file: os.utime(file, ns=(1, 1)),
    "name": lambda file: file.rename(file.with_name("w.JPEG")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_is_decoded_again(here, cache, change):
    first = datasets.load("imagenette", here)
    (old,) = (cache / "imagenette").iterdir()
    CHANGES[change](here / "imagenette2" / "val" / FOLDERS[0] / "v.JPEG")
    again = load_again(here)
    (new,) = (cache / "imagenette").iterdir()
    assert new != old
    assert (again.revision != first.revision) == (change == "size")


def test_an_archive_is_known_by_its_own_bytes(tmp_path, small):
    """Archives have no published checksum; runs of two different ones must not be mixed up."""
    assert not datasets.is_pinned("imagenette")
    files = pictures()
    changed = files | {next(iter(files)): list(files.values())[-1]}
    revisions = {}
    for name, content in {"a": files, "b": changed, "c": files}.items():
        in_zip(tmp_path / name / "imagenette2_any-name.zip", content)
        revisions[name] = load_again(tmp_path / name).revision
    assert revisions["a"] == revisions["c"] != revisions["b"]


def test_a_changed_variable_is_noticed_by_the_same_process(here, tmp_path, monkeypatch):
    damage(here)
    monkeypatch.setenv(download.SKIP_VARIABLE, "1")
    datasets.load("imagenette", here)
    monkeypatch.setenv(download.CACHE_VARIABLE, str(tmp_path / "other"))
    datasets.load("imagenette", here)
    assert len(list((tmp_path / "other" / "imagenette").iterdir())) == 1
    monkeypatch.setenv(download.CACHE_VARIABLE, str(tmp_path / "third"))
    monkeypatch.delenv(download.SKIP_VARIABLE)
    assert load_error(here).code == "damaged-file"


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_a_kill_leaves_nothing_that_is_used(here, cache):
    code = (
        "import os, signal\nfrom puarena import datasets\n"
        "from puarena.datasets.builtin import imagenette\n"
        "imagenette.COUNTS = dict.fromkeys(imagenette.COUNTS, (2, 1))\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"datasets.load('imagenette', {str(here)!r})"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    (left,) = (cache / "imagenette").iterdir()
    assert left.suffix == ".tmp"
    assert len(datasets.load("imagenette", here).classes) == N_IMAGES
    assert [path.suffix for path in (cache / "imagenette").iterdir()] == [".npz"]


@pytest.mark.parametrize("reason", ["a file in the way", "a full disk"])
def test_a_cache_that_cannot_be_written_is_no_error(here, cache, monkeypatch, caplog, reason):
    def fail(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if reason == "a file in the way":
        cache.write_text("a file where a folder should be")
    else:
        monkeypatch.setattr(os, "fsync", fail)
    assert len(datasets.load("imagenette", here).classes) == N_IMAGES
    assert str(cache / "imagenette") in caplog.text
    assert download.CACHE_VARIABLE in caplog.text


# The command line


def test_prepare(here, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,a\n2,b\n" * 20)
    (tmp_path / "own.yaml").write_text("file: t.csv\nlabel: y\npositive: [a]\n")
    result = call("data", "prepare", "imagenette", tmp_path / "own.yaml", "--data", here)
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    assert "30 x 3 x 73 x 73" in first
    assert "40 x 1" in second


def test_prepare_without_bad_images(here):
    (name,) = damage(here)
    result = call("data", "prepare", "imagenette", "--data", here)
    assert result.exit_code == 2
    assert name in result.stderr
    result = call("data", "prepare", "imagenette", "--data", here, "--skip-bad-images")
    assert result.exit_code == 0
    assert "29 x 3 x 73 x 73" in result.stdout


@pytest.mark.parametrize("pack", [in_folder, in_zip])
def test_list_and_fetch_know_a_local_copy(tmp_path, small, pack):
    assert call("data", "fetch", "imagenette", "--data", tmp_path).exit_code == 2
    assert "0 of 1 files" in call("data", "list", "imagenette", "--data", tmp_path).stdout
    name = "imagenette2-160" if pack is in_folder else "imagenette2_x.zip"
    path = pack(tmp_path / name, pictures())
    listed = call("data", "list", "imagenette", "--data", tmp_path)
    assert "1 of 1 files" in listed.stdout
    assert name in listed.stdout
    assert "no checksum known" in listed.stdout
    assert call("data", "fetch", "imagenette", "--data", tmp_path).stdout == f"imagenette: {path}\n"


# The real files


def real(path: str) -> str:
    if not REAL_DATA or not (Path(REAL_DATA) / path).exists():
        pytest.skip(f"set {download.DATA_VARIABLE} to a folder with {path} to test the real files")
    return REAL_DATA


def test_real_cifar10():
    dataset = datasets.load("cifar10", real("cifar10/cifar-10-batches-py"))
    assert dataset.features.shape == (60000, 3, 32, 32)
    assert list(np.bincount(dataset.classes[dataset.train])) == [5000] * 10
    assert list(np.bincount(dataset.classes[dataset.test])) == [1000] * 10
    first = [1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981]
    assert list(np.bincount(dataset.classes[:10000])) == first
    assert list(dataset.test[[0, -1]]) == [50000, 59999]
    means = dataset.features[:50000].mean((0, 2, 3)) / 255
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)
    for setting in ("os", "ts"):
        pu, _ = draw_pu_data(dataset, Problem("cifar10", 1, setting, 0.3), 0)
        assert (len(pu.p_train), len(pu.u_train)) == (5400, 12600)


def test_real_imagenette(no_decoding):
    folder = real("imagenette")
    source = imagenette.find(Path(folder) / "imagenette")
    if source is None or source.suffix != ".zip":
        pytest.skip("the images are not in a zip")
    dataset = datasets.load("imagenette", folder)
    assert dataset.features.shape == (13394, 3, 73, 73)
    assert dataset.evaluation.shape == (13394, 3, 64, 64)
    for part, column in ((dataset.train, 0), (dataset.test, 1)):
        counts = [count[column] for count in imagenette.COUNTS.values()]
        assert [int(n) for n in np.bincount(dataset.classes[part])] == counts
    test_classes = dataset.classes[dataset.test]
    assert [dataset.positive(case)[test_classes].sum() for case in (1, 2)] == [1928, 1946]
    with zipfile.ZipFile(source) as packed:
        names = sorted(name for name in packed.namelist() if name.endswith("JPEG"))
        for row in (0, 9468, 9469, 13393):
            image = Image.open(io.BytesIO(packed.read(names[row]))).convert("RGB")
            resized = image.resize((73, 73), Image.Resampling.BILINEAR)
            assert (dataset.features[row] == np.asarray(resized).transpose(2, 0, 1)).all()
    pu, _ = draw_pu_data(dataset, Problem("imagenette", 2, "ts", 0.5), 0)
    assert len(pu.p_train) + len(pu.p_val) == 2958
    no_decoding()
    assert load_again(folder).revision == dataset.revision
