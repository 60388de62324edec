"""Compile the kernels in ext/ as lagwise._kernels.<name>; everything else is in pyproject.toml.

Environment: LAGWISE_DEBUG=1 builds with bounds checks; LAGWISE_SANITIZE=address,undefined adds sanitizers.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("LAGWISE_DEBUG", "") not in ("", "0")
SANITIZE = os.environ.get("LAGWISE_SANITIZE", "")


def compiler_accepts(*flags):
    """Whether the C compiler builds and links an OpenMP-free program with these flags."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("int main(void) { return 0; }\n")
        command = [*os.environ.get("CC", "cc").split(), *flags, str(source), "-o", str(Path(folder, "probe"))]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            return False


openmp = ["-fopenmp"] if compiler_accepts("-fopenmp") else []
if not openmp:
    print("lagwise: the C compiler has no OpenMP; building single-threaded kernels", file=sys.stderr)
wanted = ["-fno-loop-unroll-and-jam", "-Wno-unused-function", "-Wno-unreachable-code"]
flags = ["-O1" if SANITIZE else "-O3", "-g" if SANITIZE else "-g0", *openmp]
flags += [flag for flag in wanted if compiler_accepts(flag)]
link = [*openmp]
if SANITIZE:
    flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    link += [f"-fsanitize={SANITIZE}"]

extensions = [
    Extension(
        f"lagwise._kernels.{path.stem}",
        [str(path)],
        include_dirs=["ext"],
        extra_compile_args=flags,
        extra_link_args=link,
        depends=[str(header) for header in sorted(Path("ext").glob("*.[hp]*"))],
    )
    for path in map(Path, sorted(str(p) for p in Path("ext").glob("*.pyx")))
]
directives = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "freethreading_compatible": True,
}
setup(
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        include_path=["ext"],
        compiler_directives=directives,
    ),
)
