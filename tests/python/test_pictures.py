"""Pictures from files to classes."""

import builtins
import os
import sys
import threading
import warnings

import numpy as np
import pytest

import mobicuda
from mobicuda.pictures import Classified, PictureWarning, classify

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Nine pictures of several sizes and formats, and what is none."""
    top = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(3)
    (top / "below").mkdir()
    for i, (name, size) in enumerate(
        [
            ("0.jpg", (300, 200)),
            ("1.png", (200, 300)),
            ("2.bmp", (256, 256)),
            ("3.ppm", (97, 640)),
            ("below/4.jpg", (64, 64)),
            ("below/5.png", (500, 500)),
        ]
    ):
        pixels = random.integers(0, 256, (size[1] // 8 + 1, size[0] // 8 + 1, 3), np.uint8)
        Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(top / name)
    Image.fromarray(random.integers(0, 256, (99, 120), np.uint8)).save(top / "grey.png")
    Image.fromarray(random.integers(0, 256, (99, 120, 4), np.uint8)).save(top / "rgba.png")
    Image.fromarray(random.integers(0, 2**16, (99, 120), np.uint16)).save(top / "sixteen.png")
    (top / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    (top / "cut.jpg").write_bytes((top / "0.jpg").read_bytes()[:3000])
    (top / "empty.png").touch()
    (top / "text.txt").write_text("no picture")
    os.symlink("nowhere", top / "gone.jpg")
    Image.new("RGB", (4096, 1)).save(top / "narrow.png")
    (top / ".hidden.jpg").write_bytes(b"never read")
    return top


BROKEN = ["broken.jpg", "cut.jpg", "empty.png", "gone.jpg", "narrow.png", "text.txt"]
GOOD = ["0.jpg", "1.png", "2.bmp", "3.ppm", "below/4.jpg", "below/5.png", "grey.png", "rgba.png", "sixteen.png"]


def expected_pixels(path):
    """The same preparation in plain steps: short side 256, centre crop to 96."""
    image = Image.open(path)
    if image.mode == "I;16":
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    image = image.convert("RGB")
    width, height = image.size
    if width <= height:
        size = (256, 256 * height // width)
    else:
        size = (256 * width // height, 256)
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR))
    top, left = (pixels.shape[0] - 96) // 2, (pixels.shape[1] - 96) // 2
    return pixels[top : top + 96, left : left + 96]


def normalised(pixels, preprocess):
    pixels = pixels.astype(np.float32)
    if preprocess == "tf":
        floats = pixels / np.float32(127.5) - np.float32(1)
    else:
        mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
        floats = (pixels / np.float32(255) - mean) / std
    return np.ascontiguousarray(floats.transpose(2, 0, 1))


@pytest.mark.parametrize("preprocess", ["torch", "tf"])
def test_a_folder_in_order(engine, folder, preprocess):
    broken = []
    found = list(
        classify(folder, engine, top_k=3, preprocess=preprocess, on_broken=lambda *entry: broken.append(entry))
    )
    assert [name for name, _ in found] == GOOD
    assert [name for name, _ in broken] == BROKEN
    assert all(reason for _, reason in broken)
    session = engine.create_session()
    for name, classes in found:
        scores = session.run(normalised(expected_pixels(folder / name), preprocess)[None])[0]
        best = np.argsort(-scores, kind="stable")[:3]
        assert classes == [(str(index), float(scores[index])) for index in best]


def test_bytes(mobilenet, folder):
    engine = mobicuda.Engine.from_onnx(
        mobilenet, backend="cpu", max_batch=4, picture_input=mobicuda.PictureInput.torch()
    )
    session = engine.create_session()
    for name, classes in classify([folder / name for name in GOOD], engine, top_k=1):
        scores = session.run(expected_pixels(name)[None])[0]
        assert classes == [(str(scores.argmax()), float(scores.max()))]


def test_one_file_and_labels(engine, folder, tmp_path):
    names = tmp_path / "labels.txt"
    names.write_text("".join(f"n{i:08} class {i}, or so\n" for i in range(1000)) + "\n")
    ((name, classes),) = classify(folder / "0.jpg", engine, labels=names, top_k=2)
    ((_, plain),) = classify(str(folder / "0.jpg"), engine, top_k=2)
    assert name == str(folder / "0.jpg")
    assert classes == [(f"class {index}, or so", score) for index, score in plain]
    ((_, given),) = classify(folder / "0.jpg", engine, labels=[f"great white {i}" for i in range(1000)], top_k=2)
    assert given == [(f"great white {index}", score) for index, score in plain]
    with pytest.raises(ValueError, match="labels names 2 classes, the model has 1000"):
        classify(folder / "0.jpg", engine, labels=["a", "b"])
    with pytest.raises(FileNotFoundError):
        classify(folder / "0.jpg", engine, labels=tmp_path / "missing")


def test_broken_pictures_are_warnings_by_default(engine, folder):
    with pytest.warns(PictureWarning, match="text.txt: not a picture of a known format"):
        assert list(classify(folder / "text.txt", engine)) == []
    with pytest.warns(PictureWarning, match="missing.jpg: No such file"):
        assert list(classify([folder / "missing.jpg"], engine)) == []


def test_wrong_arguments(engine, small, folder, tmp_path, monkeypatch):
    for arguments, kind, text in [
        (((folder, small), {}), ValueError, "images of 3 channels, this one reads"),
        (((folder, engine), {"preprocess": "caffe"}), ValueError, "'torch' or 'tf'"),
        (((folder, engine), {"top_k": 0}), ValueError, "top_k"),
        (((tmp_path, engine), {}), ValueError, "no file in"),
        (((b"bytes", engine), {}), TypeError, "got bytes"),
        (((3, engine), {}), TypeError, "pictures|iterable"),
        (((folder, engine), {"threads": -1}), ValueError, "threads"),
    ]:
        with pytest.raises(kind, match=text):
            classify(*arguments[0], **arguments[1])  # before anything is read
    real_import = builtins.__import__

    def without_pillow(name, *rest):
        if name == "PIL":
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    monkeypatch.delitem(sys.modules, "PIL", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pip install pillow"):
        classify(folder, engine)


def test_ending_early_ends_the_threads(engine, folder):
    found = classify(folder, engine, on_broken=lambda *_: None, threads=3)
    assert isinstance(next(found), Classified)
    assert any(thread.name.startswith("mobicuda-pictures") for thread in threading.enumerate())
    found.close()
    assert not any(thread.name.startswith("mobicuda-pictures") for thread in threading.enumerate())


def test_a_callback_that_raises_ends_it(engine, folder):
    def stop(name, reason):
        raise RuntimeError(name)

    with pytest.raises(RuntimeError, match=BROKEN[0]):
        list(classify(folder, engine, on_broken=stop))


def test_pictures_that_unpack_to_too_much(engine, tmp_path):
    Image.new("1", (20000, 20000)).save(tmp_path / "bomb.png")
    broken = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(classify(tmp_path, engine, on_broken=lambda *entry: broken.append(entry))) == []
    assert broken[0][0] == "bomb.png" and "pixels" in broken[0][1]
