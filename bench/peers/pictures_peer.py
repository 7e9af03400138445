#!/usr/bin/env python3
"""Times JPEG files to the five best classes of MobileNetV2 in PyTorch, as pictures_bench times ours.

Modes:
  dataloader   a DataLoader of --workers processes decodes, resizes and normalises, as torchvision's references do
  gpu-decoder  torchvision.io.decode_jpeg on the GPU, a list at a time, resized there; a pool of threads reads files
  dali         NVIDIA DALI, decoding on the GPU ("mixed")

The network (random weights: only time counts) is fp16, channels_last, torch.compile in mode reduce-overhead. Files are read again
and again, from the page cache; what comes before the first --warm-up seconds have passed is not timed. Rates are pictures by wall
time; `cores` is what this process and its workers kept busy.

Exit codes: 0 all modes measured, or left by --time-limit, 1 some failed, 2 usage, 4 PyTorch, torchvision or a CUDA device is absent.
"""
import argparse
import concurrent.futures
import importlib.util
import itertools
import pathlib
import resource
import sys
import time

import peer
from peer import list_of

MODES = ("dataloader", "gpu-decoder", "dali")
GUESSED_SECONDS = {"dataloader": 50, "gpu-decoder": 40, "dali": 40}
SHORT_SIDE, CROP = 256, 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SUFFIXES = (".jpg", ".jpeg")
TOP = 5


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=pathlib.Path, required=True, help="folder of JPEG files, with the folders below it")
    parser.add_argument("--modes", type=list_of(str, MODES), default=list(MODES), help=f"default {','.join(MODES)}")
    parser.add_argument("--batches", type=list_of(int), default=[256], help="default 256")
    parser.add_argument("--workers", type=int, default=16, help="processes of the DataLoader, threads of the others; default 16")
    parser.add_argument("--warm-up", type=float, default=5, help="seconds before timing, default 5")
    parser.add_argument("--seconds", type=float, default=8, help="of timing, default 8")
    parser.add_argument("--runs", type=int, default=peer.LEAST_RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--device", type=int, default=0, help="CUDA device index")
    parser.add_argument("--cpu", action="store_true", help="the mode dataloader on the CPU, in fp32, to try it")
    peer.add_document_options(parser)
    arguments = peer.parse(parser)
    if arguments.workers < 1 or min(arguments.warm_up, arguments.seconds) <= 0:
        parser.error("--workers, --warm-up and --seconds are positive")
    if not arguments.pictures.is_dir():
        parser.error(f"--pictures: no such folder: {arguments.pictures}")
    return arguments


def picture_files(folder):
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())


def cpu_seconds(of):
    """User and system time of this process, or of its children that have ended."""
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


class Decoded:
    """A dataset of files over and over, for DataLoader: torchvision's reference transforms."""

    def __init__(self, files, count):
        from torchvision import transforms
        self.files, self.count = files, count
        self.pillow = importlib.util.find_spec("PIL") is not None
        resize = [transforms.Resize(SHORT_SIDE, antialias=True), transforms.CenterCrop(CROP)]
        to_floats = transforms.ToTensor() if self.pillow else lambda picture: picture.float().div(255)
        self.transform = transforms.Compose([*resize, to_floats, transforms.Normalize(MEAN, DEVIATION)])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        file = str(self.files[index % len(self.files)])
        if self.pillow:
            from PIL import Image
            with Image.open(file) as image:
                return self.transform(image.convert("RGB"))
        from torchvision import io
        return self.transform(io.decode_jpeg(io.read_file(file), mode=io.ImageReadMode.RGB))


class Bench:
    def __init__(self, arguments, files):
        import torch
        import torchvision
        self.arguments, self.files, self.torch, self.torchvision = arguments, files, torch, torchvision
        self.device = "cpu" if arguments.cpu else f"cuda:{arguments.device}"
        self.type = torch.float32 if arguments.cpu else torch.float16
        network = torchvision.models.mobilenet_v2(weights=None).eval().to(self.device, self.type, memory_format=torch.channels_last)
        self.network = network if arguments.cpu else torch.compile(network, mode="reduce-overhead")

    def classify(self, pictures):
        """Enqueues the network on a batch; the best classes, on the device."""
        pictures = pictures.to(self.device, self.type, memory_format=self.torch.channels_last, non_blocking=True)
        return self.network(pictures).float().topk(TOP).indices

    def measure(self, mode, batch, **_):
        """Statistics, and what else a row has."""
        batches = {"dataloader": self.dataloader, "gpu-decoder": self.gpu_decoder, "dali": self.dali}[mode](batch)
        before, children = map(cpu_seconds, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        start = began = time.perf_counter()
        count, timed = 0, False
        last = None
        with self.torch.inference_mode():
            for pictures in batches:
                best = self.classify(pictures)
                if last is not None:
                    last.cpu()  # results are taken while the next batch is under way
                last = best.clone()
                now = time.perf_counter()
                if not timed and now - began > self.arguments.warm_up:
                    timed, start, count, before = True, now, 0, cpu_seconds(resource.RUSAGE_SELF)
                    continue
                count += 1
                if timed and now - start > self.arguments.seconds:
                    break
            last.cpu()
        wall = time.perf_counter() - start
        cores = (cpu_seconds(resource.RUSAGE_SELF) - before) / wall
        batches.close()  # workers end, and are counted as a whole
        cores += (cpu_seconds(resource.RUSAGE_CHILDREN) - children) / (time.perf_counter() - began)
        microseconds = 1e6 * wall / max(count, 1)
        statistics = {"median_us": microseconds, "mean_us": microseconds, "p90_us": microseconds, "runs": count}
        return statistics, {"workers": self.arguments.workers, "cores": cores}

    def dataloader(self, batch):
        count = 1 << 30
        loader = self.torch.utils.data.DataLoader(Decoded(self.files, count), batch_size=batch, num_workers=self.arguments.workers,
                                                  pin_memory=not self.arguments.cpu, prefetch_factor=4, drop_last=True,
                                                  sampler=range(count))
        yield from loader

    def gpu_decoder(self, batch):
        from torchvision.transforms.v2 import functional
        io = self.torchvision.io
        mean, deviation = (self.torch.tensor(values, device=self.device).view(3, 1, 1) * 255 for values in (MEAN, DEVIATION))
        files = itertools.cycle(map(str, self.files))

        def prepared(picture):
            resized = functional.resize(picture, [SHORT_SIDE], antialias=True)
            return functional.center_crop(resized, [CROP, CROP])

        with concurrent.futures.ThreadPoolExecutor(self.arguments.workers) as pool:
            def read():
                return [pool.submit(io.read_file, file) for file in itertools.islice(files, batch)]

            ahead = [read(), read()]
            while True:
                encoded = [one.result() for one in ahead.pop(0)]
                ahead.append(read())
                pictures = io.decode_jpeg(encoded, mode=io.ImageReadMode.RGB, device=self.device)
                yield (self.torch.stack([prepared(picture) for picture in pictures]) - mean) / deviation

    def dali(self, batch):
        from nvidia.dali import fn, pipeline_def, types
        from nvidia.dali.plugin.pytorch import DALIGenericIterator
        files = [str(file) for file in self.files]

        @pipeline_def(batch_size=batch, num_threads=self.arguments.workers, device_id=self.arguments.device)
        def pipeline():
            encoded, _ = fn.readers.file(files=files, labels=[0] * len(files), name="reader")
            pictures = fn.decoders.image(encoded, device="mixed", output_type=types.RGB)
            pictures = fn.resize(pictures, resize_shorter=SHORT_SIDE, antialias=True)
            return fn.crop_mirror_normalize(pictures, crop=(CROP, CROP), dtype=types.FLOAT16, mean=[255 * m for m in MEAN],
                                            std=[255 * d for d in DEVIATION], output_layout="CHW")

        built = pipeline()
        built.build()
        for outputs in DALIGenericIterator([built], ["pictures"]):
            yield outputs[0]["pictures"]


def configurations(arguments, modes):
    for mode in modes:
        for batch in arguments.batches:
            yield {"network": "mobilenet_v2", "mode": mode, "precision": "fp32" if arguments.cpu else "fp16", "batch": batch}


def main():
    arguments = parse_arguments()
    document = peer.Document(arguments, "PyTorch, JPEG files", cpu=peer.cpu_name(),
                             gpu="" if arguments.cpu else peer.gpu_name(arguments.device))
    files = picture_files(arguments.pictures)
    if not files:
        print(f"--pictures: {arguments.pictures} holds no JPEG file", file=sys.stderr)
        return peer.EXIT_USAGE
    try:
        import torch
        import torchvision
    except ImportError as error:
        document.absent("", f"{error.name} is not installed (pip install torch torchvision)")
        return document.exit_code()
    document.tell(version=torch.__version__, torchvision=torchvision.__version__, pictures=len(files))
    if not arguments.cpu and not torch.cuda.is_available():
        document.absent("", "no CUDA device")
        return document.exit_code()
    modes = []
    for mode in arguments.modes:
        if arguments.cpu and mode != "dataloader":
            document.absent(mode, "needs a GPU")
        elif mode == "dali" and not dali_is_there():
            document.absent(mode, "nvidia-dali is not installed (pip install nvidia-dali-cuda130)")
        else:
            modes.append(mode)
    peer.measure_all(document, configurations(arguments, modes), Bench(arguments, files).measure, GUESSED_SECONDS,
                     arguments.time_limit)
    return document.exit_code()


def dali_is_there():
    try:
        import nvidia.dali.plugin.pytorch
        return bool(nvidia.dali.plugin.pytorch)
    except ImportError:
        return False


if __name__ == "__main__":
    sys.exit(main())
