"""Recipe for this checkout: conan create packaging/conan. What it is built with comes from the system (apt), not from
recipes."""
import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt

SOURCES = ("CMakeLists.txt", "CHANGELOG.md", "README.md", "baselines/*", "bench/*", "c_api/*", "cmake/*",
           "docs/examples/*", "engine/*", "kernels/*", "models/*", "onnx_import/*", "packaging/debian/*", "packaging/*.py",
           "plan_file/*", "version/*", "wire_format/*")


class MobicudaConan(ConanFile):
    name = "mobicuda"
    description = "Hand-written CUDA inference engine for MobileNetV2"
    topics = ("cuda", "inference", "onnx", "mobilenet")
    license = "none chosen"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "cuda": [True, False], "tools": [True, False]}
    default_options = {"shared": True, "fPIC": True, "cuda": False, "tools": False}
    implements = ["auto_shared_fpic"]

    def set_version(self):
        text = (self._checkout() / "CMakeLists.txt").read_text()
        self.version = re.search(r"project\(mobicuda VERSION ([\d.]+)", text).group(1)

    def _checkout(self):
        return pathlib.Path(self.recipe_folder).parent.parent

    def export_sources(self):
        for pattern in SOURCES:
            copy(
    self,
    pattern,
    self._checkout(),
    self.export_sources_folder,
    excludes=(
        "bench/results/*",
         "*/target/*"))

    def system_requirements(self):
        packages = ["libprotobuf-dev", "protobuf-compiler", "libonnx-dev", "libeigen3-dev", "libxxhash-dev"]
        if self.options.tools:
            packages += ["libcli11-dev", "nlohmann-json3-dev", "libturbojpeg0-dev", "libstb-dev"]
        Apt(self).check(packages)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)  # sets BUILD_SHARED_LIBS
        toolchain.cache_variables.update({
            "MOBICUDA_BUILD_TESTS": False, "MOBICUDA_BUILD_BENCH": bool(self.options.tools), "MOBICUDA_INSTALL": True,
            "MOBICUDA_CUDA": "ON" if self.options.cuda else "OFF", "CMAKE_UNITY_BUILD": True,
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # Our own mobicudaConfig.cmake knows the targets, and what the static one needs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append("lib/cmake/mobicuda")
        self.cpp_info.set_property("pkg_config_name", "mobicuda")
        self.cpp_info.libs = ["mobicuda"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["protobuf-lite", "pthread", "m"]
