"""An installation and a home that nothing can be written to: kernels that compile at run time still work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import lagwise._kernels

import lagwise

CODE = """
import warnings; warnings.simplefilter("ignore")
import lagwise as lw
from lagwise._kernels import hmm_exact
assert "site" in lw.__file__ and not hmm_exact.log_forward1._cache.__class__.__name__.startswith("FunctionCache")
model = lw.HMM(3, n_iter=2, random_state=0).fit([[0, 1, 2, 1]] * 5)
model.emissionprob_[:] = [[1e-300, 1 - 1e-300, 0], [1e-300, 0, 1 - 1e-300], [0, 1, 0]]
print(model.score([[0, 0, 0, 0]]) < -1000, model.decode([0, 1])[0] < 0)
"""


def test_read_only_installation(tmp_path):
    site, blocked = tmp_path / "site" / "lagwise", tmp_path / "file"
    blocked.write_text("")
    skip = shutil.ignore_patterns("__pycache__", "_kernels", "*.nbi", "*.nbc")
    shutil.copytree(Path(lagwise.__file__).parent, site, ignore=skip)
    shutil.copytree(next(iter(lagwise._kernels.__path__)), site / "_kernels", ignore=skip)
    for folder in [site, *(path for path in site.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")  # a file, so that not even root can make the folder
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    environment = {**os.environ, "PYTHONPATH": str(site.parent), "HOME": str(blocked), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["XDG_CACHE_HOME"] = environment["NUMBA_CACHE_DIR"] = str(blocked / "cache")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before
