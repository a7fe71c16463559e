"""What happens before the library is loaded: drivers of OpenCL that pip installed are found. And the command `koine` of a wheel,
which starts without importing the package.
"""
from __future__ import annotations

import fnmatch
import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List, NoReturn, Optional

# Packages of PyPI with a driver, and its file's name.
PACKAGES = {"intel-opencl-rt": "libintelocl.so", "pocl-binary-distribution": "libpocl-*.so"}
NEEDED = {"pocl-binary-distribution": "ld"}
SYSTEM_FOLDER = pathlib.Path("/etc/OpenCL/vendors")


def _stem(path: str) -> str:
    """What a driver is called whatever its version: libpocl of /usr/lib/libpocl.so.2 and of libpocl-21062cec.so."""
    return re.split(r"-|\.so", os.path.basename(path.strip()))[0]


def _installed_drivers() -> List[pathlib.Path]:
    found = []
    for package, name in PACKAGES.items():
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        program = NEEDED.get(package)
        if program and not shutil.which(program):  # it would end this program when it compiles
            sys.stderr.write(f"koine: the driver of {package} is left out: it needs the program {program}, which is not on the "
                             "PATH; install binutils, or koine[intel] instead\n")
            continue
        paths = sorted(pathlib.Path(str(file.locate())).resolve() for file in files if fnmatch.fnmatch(file.name, name))
        found += paths[:1]
    return found


def _folder_for(files: dict) -> Optional[pathlib.Path]:
    """A folder with these files: in the user's cache, or, where that cannot be written, a temporary one."""
    text = "\n".join(f"{name}={content}" for name, content in sorted(files.items()))
    name = "vendors-" + hashlib.sha256(text.encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for place in (pathlib.Path(cache, "koine", name), None):
        try:
            folder = place or pathlib.Path(tempfile.mkdtemp(prefix="koine-vendors-"))
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in files.items():
                if not (folder / file).is_file() or (folder / file).read_text() != content:
                    written = folder / f"{file}.{os.getpid()}"
                    written.write_text(content)
                    written.replace(folder / file)
            return folder
        except OSError:
            continue
    return None


def find_drivers() -> None:
    """Lets the loader of OpenCL find the drivers that pip installed, together with those of the system. OCL_ICD_VENDORS names a folder
    instead of the system's, so it gets one with both. Where the user set it, or no package has a driver that the system lacks,
    nothing changes.
    """
    if os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OCL_ICD_FILENAMES"):
        return
    files = {}
    try:
        for icd in sorted(SYSTEM_FOLDER.glob("*.icd")):
            files[icd.name] = icd.read_text()
    except (OSError, UnicodeDecodeError):
        return  # what the system has must not be hidden
    known = {_stem(content) for content in files.values()}
    added = [driver for driver in _installed_drivers() if _stem(driver.name) not in known]
    for driver in added:
        files[f"python-{_stem(driver.name)}.icd"] = f"{driver}\n"
    folder = _folder_for(files) if added else None
    if folder:
        os.environ["OCL_ICD_VENDORS"] = str(folder)


def main() -> NoReturn:
    """The command."""
    program = pathlib.Path(__file__).resolve().parent / "koine" / "bin" / ("koine.exe" if os.name == "nt" else "koine")
    if not program.is_file():
        sys.exit(f"koine: {program} is missing; expected the command that the package was installed with: install it again")
    find_drivers()
    words = [str(program), *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.run(words, check=False).returncode)
    os.execv(program, words)
