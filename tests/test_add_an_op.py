# SPDX-License-Identifier: BSD-3-Clause
"""A new element-wise op is two lines in two files, a reduction three: both are added to a copy of the tree.

The build folder is that of the editable install, or $NNTILE_BUILD_DIR. Ninja's paths are relative,
so a copy of both with their times compiles only what the lines change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_nntile import fallback

pytestmark = pytest.mark.multi

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("NNTILE_BUILD_DIR", ROOT / "build" / "dev")).resolve()
MINOR = "_".join(torch.__version__.split(".")[:2])
TARGETS = [
    "libnntile_c/libnntile_c.so",
    *(f"torch_nntile/{name}" for name in ("_capi.abi3.so", f"_stubapi_{MINOR}.abi3.so")),
    f"torch_nntile/libtorch_nntile_stub_{MINOR}.so",
]

# ---- the two lines of an element-wise op, and the lines after which they stand
LINES = {
    "libnntile_c/src/kernels/map.def": (
        "MAP(cos, floating,",
        (
            'MAP(hypot, floating, 60, "sqrt(a * a + b * b)", IN("a", "b"), OUT("y"), P(), (T a, T b),\n'
            "    std::hypot(a, b))\n"
        ),
    ),
    "torch_nntile/aten.py": (
        '    *_same(UNARY, "self:x"),',
        '    *_same("hypot", "self:a other:b"),\n',
    ),
}
# A reduction: what it does with an element, the row, and which overload it serves, a composition till then.
REDUCTION = {
    "libnntile_c/src/kernels/fold_isa.cc": (
        "// ---- the loops",
        (
            "struct Op_nansum : Op_sum {\n    template <class T>\n    static T take(T x) {\n"
            "        return x == x ? x : T(0);\n    }\n};\n"
        ),
    ),
    "libnntile_c/src/kernels/fold.def": (
        "FOLD(sumsq,",
        'FOLD(nansum, "y = sum of x over dims, without nan", "add", value)\n',
    ),
    "torch_nntile/aten.py": (
        '    *_same("amax amin argmax argmin logsumexp",',
        '    *_same("nansum", "self:x dim:dims keepdim"),\n',
    ),
}

# An editable install puts its own finder before PYTHONPATH.
START = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "mesonpy" not in type(f).__name__.lower()]
import torch, torch_nntile
assert torch_nntile.__file__.startswith(sys.argv[1]), torch_nntile.__file__
"""
USE = (
    START
    + """
torch_nntile.init_context(ncpu=2, cpu_fallback=False)
host, two = torch.linspace(-3, 3, 7 * 11).reshape(7, 11), torch.tensor(2.0)
also_two = two.to("nntile")
for cut in (None, 4, (1, 5, 1)):
    x = host.to("nntile")
    if cut is not None:
        torch_nntile.set_axis_group_name(x, {0: "rows"})
        torch_nntile.set_axis_group_tiling("rows", cut)
    leaf = x.detach().requires_grad_()
    y = leaf.hypot(also_two)
    if cut is not None:
        torch_nntile.wait()
        tiles = torch_nntile.explain("tiles").count("map {hypot}")
        assert tiles == (2 if cut == 4 else 3), torch_nntile.explain("tiles")
    y.sum().backward()
    out = torch.empty(0, device="nntile")
    torch.hypot(x.t(), also_two, out=out)
    whole = torch.arange(5.0, device="nntile").hypot(also_two)
    x.hypot_(also_two)
    expected = host.hypot(two)
    for found, wanted in (
        (y.detach(), expected),
        (x, expected),
        (out, expected.t()),
        (leaf.grad, host / expected),
        (whole, torch.arange(5.0).hypot(two)),
        (host.bfloat16().to("nntile").hypot(also_two), host.bfloat16().hypot(two)),
    ):
        torch.testing.assert_close(found.cpu(), wanted)
assert torch_nntile.fallback_report() == []
print("hypot works")
"""
)
USE_REDUCTION = (
    START
    + """
torch_nntile.init_context(ncpu=2, cpu_fallback=False)
host = torch.linspace(-3, 3, 7 * 11).reshape(7, 11)
host[2, 3] = host[5] = torch.nan
for cut in (None, 4):
    x = host.to("nntile")
    if cut is not None:
        torch_nntile.set_axis_group_name(x, {0: "rows"})
        torch_nntile.set_axis_group_tiling("rows", cut)
    for dims in (None, 0, (0, 1), -1):
        torch.testing.assert_close(x.nansum(dims).cpu(), host.nansum(dims))
    assert "nansum(" in torch_nntile.explain("graph"), torch_nntile.explain("graph")
print("nansum works")
"""
)
# The property tests read the rows: they have tests of it now.
PROPERTIES = START + "import pytest; sys.exit(pytest.main(sys.argv[2:]))"


def copy_of_tree(target: Path) -> tuple[Path, Path]:
    """Sources and build folder in one folder, as far from each other as they are here."""
    common = Path(os.path.commonpath([ROOT, BUILD]))
    root, build = target / ROOT.relative_to(common), target / BUILD.relative_to(common)
    for folder in ("libnntile_c", "torch_nntile", "tests", "tools", "subprojects"):
        ignored = shutil.ignore_patterns("__pycache__", "build", ".hypothesis", "*.tar.gz")
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored, symlinks=True)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, root)
    # What the tests were linked to: big, and not asked for.
    programs = shutil.ignore_patterns("*.p", "[a-z]*-*")
    build.mkdir(parents=True)
    for path in BUILD.iterdir():
        if path.is_dir():
            ignore = programs if path.name == "tests" else None
            shutil.copytree(path, build / path.name, ignore=ignore, symlinks=True)
        else:
            shutil.copy2(path, build)
    return root, build


def add_lines(root: Path, added: dict[str, tuple[str, str]]) -> None:
    for name, (after, line) in added.items():
        file = root / name
        lines = file.read_text().splitlines(keepends=True)
        (place,) = [k for k, text in enumerate(lines) if text.startswith(after)]
        lines.insert(place + 1, line)
        file.write_text("".join(lines))


def package_of(root: Path, build: Path, target: Path) -> Path:
    """The package as the wheel has it: all files side by side."""
    shutil.copytree(root / "torch_nntile", target / "torch_nntile")
    built = [build / name for name in TARGETS]
    for file in [
        *built,
        build / "torch_nntile" / "_torch_build.py",
        *build.glob("libnntile_c/*blas*.so"),
        *build.glob("libnntile_c/libdnnl.so*"),
    ]:
        shutil.copy2(file, target / "torch_nntile")
    return target


def run(*command: str, cwd: Path, path: Path | None = None) -> str:
    environment = dict(os.environ)
    if path is not None:
        environment |= {
            "PYTHONPATH": str(path),
            "LD_LIBRARY_PATH": str(path / "torch_nntile"),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # the entry point is that of the install
        }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


@pytest.fixture
def rows_only() -> object:
    before = fallback.cpu_fallback()
    fallback.set_cpu_fallback(False)
    yield
    fallback.set_cpu_fallback(before)


@pytest.mark.usefixtures("rows_only")
def test_without_the_lines_there_is_no_such_op() -> None:
    with pytest.raises(NotImplementedError, match="hypot"):
        torch.ones(3, device="nntile").hypot(torch.ones(3, device="nntile"))


@pytest.mark.slow  # it compiles
@pytest.mark.skipif(not (BUILD / "build.ninja").exists(), reason=f"{BUILD} is no build folder")
def test_two_lines_add_an_op(tmp_path: Path) -> None:
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert ninja, "ninja is part of the build's requirements"
    root, build = copy_of_tree(tmp_path)
    build_all = (ninja, "-C", str(build), *TARGETS)
    run(*build_all, cwd=tmp_path)  # no work, unless the install is older than the sources
    add_lines(root, LINES)
    done = run(*build_all, cwd=tmp_path)
    compiled = [line for line in done.splitlines() if "Compiling" in line]
    assert 0 < len(compiled) <= 6, f"two lines compile more than the map kernels:\n{done}"

    add_lines(root, REDUCTION)
    run(*build_all, cwd=tmp_path)

    package = package_of(root, build, tmp_path / "package")
    assert "nansum works" in run(
        sys.executable, "-c", USE_REDUCTION, str(package), cwd=package, path=package
    )
    assert "hypot works" in run(sys.executable, "-c", USE, str(package), cwd=package, path=package)
    file = root / "tests" / "torch" / "test_rows.py"
    names = ("aten::hypot", "aten::hypot_", "aten::hypot.out")
    tests = [f"{file}::test_element_wise_row[{name}]" for name in names]
    tests += ["-p", "no:cacheprovider"]
    arguments = ["-q", "-c", str(root / "pyproject.toml"), "--rootdir", str(root), *tests]
    said = run(
        sys.executable, "-c", PROPERTIES, str(package), *arguments, cwd=package, path=package
    )
    assert "3 passed" in said, f"hypot, hypot_ and hypot.out should each have a test:\n{said}"
