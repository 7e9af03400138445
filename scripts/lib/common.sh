# Shared by the scripts above it: finds out what the machine has and installs what is missing.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PATH="$PATH:/usr/local/cuda/bin"

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

no_arguments() { # "$@" of a script that takes none; its first comment is its help
  case ${1-} in
    "") ;;
    --help | -h)
      printf 'usage: scripts/%s\n\n' "${0##*/}"
      sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      printf 'error: %s takes no arguments, got %s\n' "${0##*/}" "$1" >&2
      exit 2
      ;;
  esac
}

has_header() { # NAME...: whether the compiler finds all of these headers
  local name
  for name in "$@"; do
    echo "#include <$name>" | c++ -std=c++20 -I/usr/include/eigen3 -E -x c++ - >/dev/null 2>&1 || return 1
  done
}

has_onnx_schema() {
  [ -f /usr/include/onnx/onnx.proto ] ||
    python3 -c 'import importlib.util as u, os, sys; s = u.find_spec("onnx"); sys.exit(not (s and os.path.exists(os.path.join(os.path.dirname(s.origin), "onnx.proto"))))' 2>/dev/null
}

missing_packages() { # prints the Debian/Ubuntu packages whose contents are not there
  command -v c++ >/dev/null || echo g++
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v pkg-config >/dev/null || echo pkg-config
  command -v protoc >/dev/null || echo protobuf-compiler
  command -v c++ >/dev/null || { # nothing can be probed without a compiler
    echo libprotobuf-dev libonnx-dev libeigen3-dev libcli11-dev nlohmann-json3-dev libturbojpeg0-dev libstb-dev libxxhash-dev catch2 libbenchmark-dev
    return
  }
  has_header google/protobuf/message_lite.h || echo libprotobuf-dev
  has_onnx_schema || echo libonnx-dev
  has_header Eigen/Core || echo libeigen3-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header turbojpeg.h || echo libturbojpeg0-dev
  has_header stb/stb_image.h || has_header stb_image.h || echo libstb-dev
  has_header xxhash.h || echo libxxhash-dev
  has_header catch2/catch.hpp || has_header catch2/catch_all.hpp || echo catch2
  has_header benchmark/benchmark.h || echo libbenchmark-dev
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_install() {
  command -v apt-get >/dev/null || die "please install the equivalents of: $* (no apt-get on this machine)"
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || die "please install: $* (neither root nor sudo here)"
  say "installing $*"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_dependencies() {
  local packages
  packages=$(missing_packages)
  # shellcheck disable=SC2086
  [ -z "$packages" ] || apt_install $packages
}

clang_format() { # prints the name of clang-format 14; other versions format otherwise
  local name
  for name in clang-format-14 clang-format; do
    if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then echo "$name"; return; fi
  done
  return 1
}

install_linters() {
  local packages=()
  clang_format >/dev/null || packages+=(clang-format-14)
  command -v pyflakes3 >/dev/null || packages+=(pyflakes3)
  [ ${#packages[@]} -eq 0 ] || apt_install "${packages[@]}"
}

clang_tidy_version=$(<"$root/scripts/lib/clang_tidy_version") # others find other things; older ones cannot read CUDA 13
clang_tidy_folder=${XDG_CACHE_HOME:-$HOME/.cache}/mobicuda/clang-tidy-$clang_tidy_version

clang_tidy() { # prints the name of the version above
  local name
  for name in "$clang_tidy_folder/clang_tidy/data/bin/clang-tidy" clang-tidy-${clang_tidy_version%%.*} clang-tidy; do
    if "$name" --version 2>/dev/null | grep -q "version $clang_tidy_version"; then echo "$name"; return; fi
  done
  return 1
}

install_clang_tidy() { # PyPI has the same program for every distribution
  clang_tidy >/dev/null && return
  python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip
  say "installing clang-tidy $clang_tidy_version"
  rm -rf "$clang_tidy_folder"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --target "$clang_tidy_folder" "clang-tidy==$clang_tidy_version" || die "pip cannot install clang-tidy $clang_tidy_version"
  clang_tidy >/dev/null || die "clang-tidy $clang_tidy_version was installed, but does not run: $clang_tidy_folder"
}

fuzzing_clang() { # prints the name of a clang++ with libFuzzer; before 16 lambdas cannot name what a structured binding did
  local name program
  program=$(mktemp)
  for name in clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++; do
    if [ "$("$name" -dumpversion 2>/dev/null | cut -d . -f 1)" -ge 16 ] 2>/dev/null &&
      echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
      "$name" -x c++ - -fsanitize=fuzzer,address,undefined -o "$program" 2>/dev/null; then
      rm -f "$program"
      echo "$name"
      return
    fi
  done
  rm -f "$program"
  return 1
}

install_clang() { # of those that the distribution has, the newest
  fuzzing_clang >/dev/null && return
  local version
  command -v apt-get >/dev/null && as_root apt-get update -qq
  for version in 22 21 20 19 18 17 16; do
    apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1 || continue
    apt_install "clang-$version" "libclang-rt-$version-dev" "llvm-$version"
    fuzzing_clang >/dev/null && return
  done
  die "please install clang 16 or newer with libFuzzer (compiler-rt) and llvm-cov"
}

# cached_folder NAME FILE...: prints where that is kept which the files ask for.
cached_folder() {
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/mobicuda/$1-$({ python3 --version; cat "${@:2}"; } | sha256sum | cut -c 1-12)"
}

# make_environment FOLDER REQUIREMENTS: a virtual environment of Python with these packages.
make_environment() {
  { python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv; } &&
    python3 -m venv "$1" &&
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$2"
}

# Prints the Python that has what the package's build and tests need, in a folder that is filled once; nothing where that
# cannot be done, for a reason that is told.
python_environment() {
  local requirements=$root/tests/python/requirements.txt folder
  folder=$(cached_folder python "$requirements")
  if [ ! -f "$folder/whole" ]; then
    say "installing Python packages into $folder" >&2
    rm -rf "$folder"
    { { has_python_header || apt_install python3-dev; } && make_environment "$folder" "$requirements" &&
      touch "$folder/whole"; } >&2 || { say "the Python package is left out: its requirements cannot be installed" >&2; return; }
  fi
  echo "$folder/bin/python"
}

# The same for the tests on Ray, whose packages are large, and fit no other's pins.
ray_environment() {
  local requirements=$root/tests/python/ray_requirements.txt folder
  folder=$(cached_folder ray "$requirements")
  if [ ! -f "$folder/whole" ]; then
    say "installing Ray into $folder" >&2
    rm -rf "$folder"
    { make_environment "$folder" "$requirements" && touch "$folder/whole"; } >&2 ||
      { say "the tests on Ray are left out: it cannot be installed" >&2; return; }
  fi
  echo "$folder/bin/python"
}

# Prints a folder that is filled once: bin/python, with a client of Triton Inference Server, and triton, the server out of a
# wheel. Nothing where that cannot be done, for a reason that is told.
serving_environment() {
  local requirements=$root/tests/serving/requirements.txt server=$root/tests/serving/server.txt folder
  folder=$(cached_folder serving "$requirements" "$server")
  if [ ! -f "$folder/whole" ]; then
    say "installing Triton Inference Server and its client into $folder" >&2
    rm -rf "$folder"
    { make_environment "$folder" "$requirements" &&
      "$folder/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --dest "$folder/wheel" -r "$server" &&
      "$folder/bin/python" -m zipfile -e "$folder"/wheel/*.whl "$folder/triton" && rm -r "$folder/wheel" &&
      chmod +x "$folder/triton/pytriton/tritonserver/bin/tritonserver" && touch "$folder/whole"; } >&2 ||
      { say "tests with Triton Inference Server are left out: it cannot be installed" >&2; return; }
  fi
  echo "$folder"
}

has_python_header() {
  [ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ]
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }

# Where there is a GPU but no nvcc, try the distribution's toolkit (Ubuntu has one, Debian's main has not).
install_cuda_toolkit() {
  command -v nvcc >/dev/null && return
  if ! has_gpu; then
    say "no CUDA Toolkit and no NVIDIA GPU: building the CPU engine only"
  elif apt-cache show nvidia-cuda-toolkit >/dev/null 2>&1; then
    apt_install nvidia-cuda-toolkit
  else
    say "there is an NVIDIA GPU but no CUDA Toolkit (https://developer.nvidia.com/cuda-downloads): building the CPU engine only"
  fi
}

# The GPU at hand, or one architecture where there is none: CUDA code is always compiled and linked.
cuda_architecture() {
  if has_gpu; then
    nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. '
  else
    echo 90
  fi
}

configure() { # BUILD_DIR [cmake options...]
  local dir=$1
  shift
  local launcher=() ccache
  if command -v ccache >/dev/null; then
    # Without the checkout's own path, so that another checkout finds what this one compiled; also with precompiled headers.
    ccache="env;CCACHE_BASEDIR=$root;CCACHE_NOHASHDIR=true;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
    launcher=("-DCMAKE_CXX_COMPILER_LAUNCHER=$ccache" "-DCMAKE_CUDA_COMPILER_LAUNCHER=$ccache")
  fi
  mkdir -p "$dir"
  cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CUDA_ARCHITECTURES="$(cuda_architecture)" "${launcher[@]}" "$@" >"$dir/configure.log" 2>&1 ||
    { cat "$dir/configure.log" >&2; die "configuring failed"; }
  grep 'mobicuda:' "$dir/configure.log" || true
}

generate_sources() { # BUILD_DIR: those of protoc's; what programs of the build write takes a build
  local files
  files=$(ninja -C "$1" -t targets all | grep -o '^[a-z_]*/[a-z_]*\.pb\.h') || die "$1 was not configured for ninja"
  # shellcheck disable=SC2086
  ninja -C "$1" $files >"$1/generate.log" 2>&1 || { cat "$1/generate.log" >&2; die "generating sources failed"; }
}
