"""Builds the C program of docs/examples against the package and asks it what it makes of a model that is not there."""
import io
import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class MobicudaTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        output = io.StringIO()
        program = os.path.join(self.cpp.build.bindir, "uses_mobicuda")
        self.run(program, output, env="conanrun")
        if "io: /absent.onnx" not in output.getvalue():
            raise ConanException(f"uses_mobicuda prints {output.getvalue()!r}")
