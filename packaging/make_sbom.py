#!/usr/bin/env python3
"""make_sbom.py BUILD_DIR FILE: writes the bill of materials of what BUILD_DIR has built, as SPDX 2.3 JSON: libmobicuda,
libmobicuda_cudnn and bench_engine, each with what it is really made of beside our own sources:

  DYNAMIC_LINK      what its NEEDED entries name
  STATIC_LINK       archives that its link command names
  BUILD_DEPENDENCY_OF  libraries whose headers the compiler read
  GENERATED_FROM    the schema of ONNX files

Files are told apart by the Debian package that they belong to, and those of the CUDA Toolkit by its folder. Others
stand by their file's name. The build must be by Ninja."""
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCTS = ("libmobicuda.so", "libmobicuda.a", "libmobicuda_cudnn.so", "bench/bench_engine")
# The compiler's own headers.
NOT_PARTS = re.compile(r"^(lib(c6|gcc|stdc\+\+)-?[\w.+-]*dev|linux-libc-dev|gcc-\d+|g\+\+-\d+)(:|$)")


def ask(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Bill:
    def __init__(self, build, nvcc):
        self.build, self.packages, self.relations = build, {}, set()
        self.owners = {}  # file -> its Debian package, or None
        self.toolkit = self.toolkit_version = None
        if nvcc and os.path.exists(nvcc):
            self.toolkit = str(pathlib.Path(nvcc).parent.parent) + "/"  # as the compiler names it, links not followed
            self.toolkit_version = re.search(r"release [\d.]+, V([\d.]+)", ask(nvcc, "--version")).group(1)

    def ask_owners(self, files):
        """Fills self.owners for these files."""
        unknown = sorted(set(files) - set(self.owners))
        self.owners.update(dict.fromkeys(unknown))
        for start in range(0, len(unknown) if shutil.which("dpkg-query") else 0, 500):
            answer = subprocess.run(["dpkg-query", "--search", *unknown[start:start + 500]],
                                    capture_output=True, text=True).stdout
            for line in answer.splitlines():
                package, _, file = line.partition(": ")
                if file in self.owners:
                    self.owners[file] = package.split(",")[0]

    def identifier(self, name):
        return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)

    def add(self, name, version, comment, checksum=None):  # with a checksum: ours
        identifier = self.identifier(name)
        self.packages.setdefault(identifier, {
            "SPDXID": identifier, "name": name, "versionInfo": version or "NOASSERTION",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NONE" if checksum else "NOASSERTION",
            "copyrightText": "NOASSERTION", "comment": comment,
            **({"checksums": [{"algorithm": "SHA256", "checksumValue": checksum}]} if checksum else {}),
        })
        return identifier

    def relate(self, owner, relation, part):
        self.relations.add((part, relation, owner) if relation.endswith("_OF") else (owner, relation, part))

    def add_files(self, files, owner, relation, kind):
        """The packages of files outside of the project, and how they stand to `owner`."""
        real = {}
        for file in files:
            path = pathlib.Path(os.path.realpath(self.build / file))
            if path.exists() and ROOT not in path.parents and self.build not in path.parents:
                real[str(path)] = file
        # /usr/lib and /lib are one, and packages name either.
        other = {path: path.removeprefix("/usr") if path.startswith("/usr/") else "/usr" + path for path in real}
        self.ask_owners([*real, *other.values()])
        for path, file in real.items():
            if self.toolkit and str(file).startswith(self.toolkit):
                if "cudnn" in pathlib.Path(path).name:
                    part = self.add("cuDNN", None, "of NVIDIA")
                else:
                    part = self.add("CUDA Toolkit", self.toolkit_version, "of NVIDIA")
                self.relate(owner, relation, part)
                continue
            package = self.owners[path] or self.owners[other[path]]
            if package is None:
                part = self.add(pathlib.Path(path).name, None, f"{kind} of no Debian package")
            elif relation == "BUILD_DEPENDENCY_OF" and NOT_PARTS.match(package):
                continue
            elif (part := self.identifier(package)) not in self.packages:
                self.add(package, ask("dpkg-query", "--show", "--showformat", "${Version}", package), "Debian package")
            self.relate(owner, relation, part)

    def inputs(self, target):
        """Every object, archive and shared library that Ninja makes `target` of."""
        seen, level = set(), {target}
        while level:
            seen |= level
            relative = sorted(name for name in level if not name.startswith("/"))
            level, reading = set(), False
            for line in ask("ninja", "-C", str(self.build), "-t", "query", *relative).splitlines() if relative else []:
                if line.startswith("  ") and not line.startswith("   "):
                    reading = line.startswith("  input:")
                elif reading and line.startswith("    ") and not line.startswith("    ||"):
                    name = line.strip().removeprefix("| ")
                    if re.search(r"\.(o|a|so[.\d]*)$", name):
                        level.add(name)
            level -= seen
        return seen


def headers_of(build):
    """Object file -> the files that the compiler read for it."""
    headers, current = {}, None
    for line in ask("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            headers[current].append(line.strip())
        elif line:
            current = line.split(": #deps")[0]
            headers[current] = []
    return headers


def needed(path):
    """The shared libraries that the dynamic linker finds for its NEEDED entries."""
    names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", ask("readelf", "-d", str(path))))
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", ask("ldd", str(path)), flags=re.M))
    return [found.get(name, name) for name in names if not name.startswith(("libmobicuda", "ld-linux"))]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, file = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    cache = dict(re.findall(r"^([\w-]+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(), flags=re.M))
    version = cache["CMAKE_PROJECT_VERSION"]
    bill, headers = Bill(build, cache.get("CMAKE_CUDA_COMPILER")), headers_of(build)
    document = "SPDXRef-DOCUMENT"
    products = [name for name in PRODUCTS if (build / name).exists()]
    if not products:
        sys.exit(f"make_sbom: {build} has built nothing")
    for name in products:
        path = build / name
        product = bill.add(
    path.name,
    version,
    "of this project; no licence is chosen",
    hashlib.sha256(
        path.read_bytes()).hexdigest())
        bill.relate(document, "DESCRIBES", product)
        target = os.path.relpath(os.path.realpath(path), build)
        inputs = bill.inputs(target)
        bill.add_files([one for one in inputs if one.startswith(
            "/") and one.endswith(".a")], product, "STATIC_LINK", "archive")
        read = {header for one in inputs for header in headers.get(one, [])}
        bill.add_files([one for one in read if one.startswith("/")], product, "BUILD_DEPENDENCY_OF", "header")
        bill.add_files([cache["MOBICUDA_ONNX_PROTO"]], product, "GENERATED_FROM", "schema")
        if not name.endswith(".a"):
            bill.add_files(needed(path), product, "DYNAMIC_LINK", "shared library")
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    content = json.dumps([bill.packages, sorted(bill.relations)], sort_keys=True).encode()
    file.write_text(json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": document, "name": f"mobicuda-{version}",
        "documentNamespace": f"https://mobicuda.invalid/spdx/mobicuda-{version}-{hashlib.sha256(content).hexdigest()}",
        "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: mobicuda packaging/make_sbom.py"]},
        "packages": [bill.packages[key] for key in sorted(bill.packages)],
        "relationships": [{"spdxElementId": one, "relationshipType": relation, "relatedSpdxElement": other}
                          for one, relation, other in sorted(bill.relations)],
    }, indent=1) + "\n")


if __name__ == "__main__":
    main()
