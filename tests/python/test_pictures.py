"""Pictures from files to classes."""

import io
import os
import pickle
import tarfile
import threading

import numpy as np
import pytest

import mobicuda
from mobicuda import Classified, Classifier, PictureWarning, classify
from mobicuda import _native, pictures

Image = pytest.importorskip("PIL.Image", reason="pillow, which the results are compared with, is not installed")
if not _native.has_pictures:
    pytest.skip("libmobicuda_pictures was not built", allow_module_level=True)


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


def ignore(name, reason):
    pass


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
    with pytest.warns(PictureWarning, match="missing.jpg: .*No such file"):
        assert list(classify([folder / "missing.jpg"], engine)) == []


def test_a_tar_archive_and_memory(engine, folder, tmp_path):
    jpegs = [name for name in GOOD if name.endswith((".jpg", ".png"))]
    with tarfile.open(tmp_path / "some.tar", "w") as archive:
        for name in jpegs:
            archive.add(folder / name, name)
    expected = [(name, best) for name, best in classify(folder, engine, on_broken=ignore) if name in jpegs]
    assert list(classify(tmp_path / "some.tar", engine)) == sorted(expected, key=lambda one: jpegs.index(one[0]))
    kinds = (bytes, bytearray, memoryview)
    encoded = [(f"{name} \udcff", kinds[i % 3]((folder / name).read_bytes())) for i, name in enumerate(jpegs)]
    found = classify(iter(encoded), engine)
    del encoded  # the run keeps what it reads
    assert list(found) == [(f"{name} \udcff", best) for name, best in expected]
    with pytest.raises(mobicuda.FileError):
        classify(tmp_path / "missing.tar", engine)


def test_one_classifier_many_times(engine, folder):
    told = []
    with Classifier(engine, top_k=3, decode="cpu", batch=2, threads=2) as classifier:
        assert classifier.decoder == "cpu"
        first = list(classifier.classify(folder, on_broken=ignore))
        run = classifier.classify(folder, on_broken=lambda *entry: told.append(entry))
        assert next(run) == first[0]
        with pytest.raises(mobicuda.InvalidArgumentError):
            classifier.classify(folder)  # one run at a time
        encoded = (folder / "0.jpg").read_bytes()
        assert classifier.classify_one(encoded) == first[0].classes  # beside it
        assert classifier.classify_one(memoryview(encoded)) == first[0].classes
        with pytest.raises(ValueError, match="not a picture"):
            classifier.classify_one(b"no picture")
        assert list(run) == first[1:]
        report = run.report
        assert (report.pictures, report.failed, report.by_cpu) == (len(GOOD) + len(BROKEN), len(BROKEN), len(GOOD))
        assert report.wall_ms > 0 and report.network_ms > 0
        assert next(run, None) is None
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(classifier)
    assert [name for name, _ in told] == BROKEN
    with pytest.raises(mobicuda.InvalidArgumentError, match="is closed"):
        classifier.classify(folder)
    classifier.close()


def test_more_classes_than_there_are(engine, folder):
    ((_, best),) = classify(folder / "0.jpg", engine, top_k=100_000)
    assert len(best) == 1000


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_batches_change_nothing(engine, folder, batch):
    expected = list(classify(folder, engine, on_broken=ignore))
    assert list(classify(folder, engine, on_broken=ignore, batch=batch, threads=batch)) == expected


def test_a_gpu_that_is_not_there(engine, folder):
    with pytest.raises(mobicuda.DeviceUnavailableError):
        classify(folder, engine, decode="gpu")  # an engine of the CPU


def test_nvjpeg_of_a_wheel(tmp_path, monkeypatch):
    assert pictures._nvjpeg_of_wheel() == ""
    file = tmp_path / "nvidia/cu13/lib/libnvjpeg.so.13"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert pictures._nvjpeg_of_wheel() == str(file)


def test_wrong_arguments(engine, small, folder, tmp_path):
    for arguments, options, kind, text in [
        ((folder, small), {}, mobicuda.UnsupportedError, "channels"),
        ((folder, engine), {"preprocess": "caffe"}, ValueError, "'torch', 'tf'"),
        ((folder, engine), {"decode": "nvjpeg"}, ValueError, "'auto', 'gpu', 'gpu-units', 'gpu-sms', 'cpu'"),
        ((folder, engine), {"top_k": 0}, ValueError, "top_k"),
        ((folder, engine), {"batch": 0}, ValueError, "batch must be 1 to 1024"),
        ((folder, engine), {"batch": True}, TypeError, "batch"),
        ((folder, engine), {"nvjpeg_library": 3}, TypeError, "nvjpeg_library"),
        ((folder, engine), {"threads": -1}, ValueError, "threads"),
        ((tmp_path, engine), {}, mobicuda.FileError, "no file"),
        ((b"bytes", engine), {}, TypeError, "classify_one"),
        (([(folder / "0.jpg", b"")], engine), {}, TypeError, "a name must be a str"),
        (([("a", "text")], engine), {}, TypeError, "a must be bytes"),
        (([("a", b"text"), "b"], engine), {}, TypeError, "without exception"),
        ((3, engine), {}, TypeError, "pictures|iterable"),
        ((folder, engine), {"top": 3}, TypeError, "unexpected keyword argument 'top'"),
        ((folder, "engine"), {}, TypeError, "must be a mobicuda.Engine"),
    ]:
        with pytest.raises(kind, match=text):
            classify(*arguments, **options)  # before anything is read


def test_ending_early_ends_the_threads(engine, folder):
    before = set(os.listdir("/proc/self/task"))
    found = classify([folder / "0.jpg"] * 1000, engine, threads=3)
    assert isinstance(next(found), Classified)
    assert set(os.listdir("/proc/self/task")) - before
    found.close()
    assert found.report.pictures < 1000
    assert list(found) == []
    del found
    assert not set(os.listdir("/proc/self/task")) - before


def test_a_callback_that_raises_ends_it(engine, folder):
    def stop(name, reason):
        raise RuntimeError(name)

    found = classify(folder, engine, on_broken=stop)
    with pytest.raises(RuntimeError, match=BROKEN[0]):
        list(found)
    assert list(found) == []


def test_threads_beside_each_other(engine, folder):
    encoded = (folder / "0.jpg").read_bytes()
    with Classifier(engine) as classifier:
        expected = classifier.classify_one(encoded)
        found = []
        threads = [threading.Thread(target=lambda: found.append(classifier.classify_one(encoded))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 8


def test_pictures_that_unpack_to_too_much(engine):
    encoded = io.BytesIO()
    Image.new("1", (20000, 20000)).save(encoded, "png")
    broken = []
    assert list(classify([("bomb", encoded.getvalue())], engine, on_broken=lambda *told: broken.append(told))) == []
    assert broken[0][0] == "bomb" and "pixels" in broken[0][1]
