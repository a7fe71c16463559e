"""The compilers: fetched once into a cache folder, each file checked against its hash; nothing is installed.

Packages come through the machine's own apt, from the mirror and with the keys that it is set up for: Clang from its own
release, Intel's compiler and AMD's device library from Debian's unstable, in a separate state of apt. The wheel comes
through pip. A figure compares only with figures of the same compilers, so that versions are pinned; where a mirror has
others, --any-version takes them, and the versions that are printed tell.
"""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import zipfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
OWN = {  # package: (version, SHA-256 of the file)
    "clang-22": ("1:22.1.8-1~deb12u1", "b6ffc4ffae2bf3d0757bab0623701060b30f5bb59e7ba4123d66b56fbb91362a"),
    "libclang-common-22-dev": ("1:22.1.8-1~deb12u1", "833d7559bfbe169d7927dfe151cae48bf352da5202e36034a206688ae33f9031"),
    "libclang-cpp22": ("1:22.1.8-1~deb12u1", "662a8497190dd6cebaee2ac9421ed9d91cb1199eeabd154eafc4b5c1ac01d4b3"),
    "libclc-22": ("1:22.1.8-1~deb12u1", "f5e36feda551f309560fcbc088ebd6272dfb529ada9e41987a75e59fa4bf90ab"),
    "libllvm22": ("1:22.1.8-1~deb12u1", "729ec3e943d320515c2bbdc96acfffd7ce34861e62bd5c42726bf586d644dfe2"),
}
UNSTABLE = {
    "intel-ocloc": ("26.27.39122.14-1", "6157b864ac4ffa9ab7c9e099bd41713e4a9f051ec007262c11f8f95e328535f4"),
    "libigc2": ("2.40.14-1", "5ccd335c0427ece223409aafa83e7fbf0980663015dd31cf0bbd4268bb7b4831"),
    "libigdfcl2": ("2.40.14-1", "c9e5330906410dec170ffc11427255af0fb66f7914eb8a2cb789496443b9a384"),
    "rocm-device-libs-21": ("7.0.2+dfsg-3", "5b22b3d5acaf1a282a4a6404d387c356899100f389564d7b27c2000885683287"),
    # what Intel's compiler is linked with, for an older release
    "libc6": ("2.43-7", "5c71715c51103beb4fbba9fe9f8dff604af6610dfa71c70bff342f54a7860803"),
    "libgcc-s1": ("16.2.0-4", "d251ea642c3795e8723ac2b9eeebe511467ca04590ba70f3d555a7616787d7e3"),
    "libstdc++6": ("16.2.0-4", "cef6654bba1daece0bc0dbe0e3f69fa5a26eb6ba139f3536e6f4806bd787f3e7"),
    "libzstd1": ("1.5.7+dfsg-4", "93e7930e4c25b918f1dd980cc1c6d4487654a248f5fa71eacb976ed7bbe954bd"),
    "zlib1g": ("1:1.3.dfsg+really1.3.2-4", "8506ce550a81ac14b047608e0df121037d9cbb10c3cc28446f68cf8c1d9d31ce"),
}
WHEEL = ("triton", "3.9.0", "5e52ab4e2f1d64f0ac494c9aa723697b793f81a91c4cae4c36608ca0bc4267bf")


class Failure(Exception):
    """A problem that needs the user's action."""


class Missing(Failure):
    """Missing software that must be installed."""


def run(command, environment=None, folder=None):
    """Returns its standard output and error; a failure contains their end."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, cwd=folder,
                          check=False)
    if done.returncode:
        raise Failure(f"{os.path.basename(command[0])} failed: {(done.stderr + done.stdout).strip()[-800:]}")
    return done.stdout + done.stderr


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("KOINE_GPU_LAB") or os.path.join(cache, "koine-gpu-lab")


def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


# ---- fetching


def mirror():
    """The Debian mirror that this machine uses."""
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                found = re.search(r"^[^#\n]*?(https?://\S+/debian)/?(?:\s|$)", file.read(), re.M)
            if found:
                return found.group(1)
    raise Failure("no Debian mirror in /etc/apt; expected a Debian system with apt configured")


def unstable_options(folder):
    """apt-get options for a separate state that includes Debian unstable."""
    state = os.path.join(folder, "apt")
    for part in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(state, part), exist_ok=True)
    sources = os.path.join(state, "unstable.list")
    with open(sources, "w", encoding="utf-8") as file:
        file.write(f"deb [signed-by={KEYRING}] {mirror()} sid main\n")
    settings = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null",
                "Dir::State::Lists": os.path.join(state, "lists"), "Dir::Cache": os.path.join(state, "cache"),
                "APT::Sandbox::User": "root"}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", "-qq", *options, "update"])
    return options


def fetch_package(name, version, expected, options, folder, any_version):
    """Downloads a package into the folder, unless it is there, and returns its path."""
    def there():
        return sorted(glob.glob(os.path.join(folder, f"{name}_*.deb")))
    for path in there():
        if digest(path) == expected or any_version:
            return path
        os.remove(path)
    wish = name if any_version else f"{name}={version}"
    try:
        run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *options, "download", wish], folder=folder)
    except Failure as failure:
        raise Failure(f"{failure}\nthe mirror lacks {name} {version}; --any-version takes the mirror's version, whose "
                      "figures do not compare with the committed ones") from None
    path = there()[0]
    if not any_version and digest(path) != expected:
        raise Failure(f"{path} does not have the pinned SHA-256 {expected}")
    return path


def fetch_wheel(folder, any_version):
    name, version, expected = WHEEL
    wish = name if any_version else f"{name}=={version}"
    found = glob.glob(os.path.join(folder, f"{name}-*.whl"))
    if not found:
        run(["python3", "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.12",
             "--platform", "manylinux_2_27_x86_64", "--platform", "manylinux_2_28_x86_64", "-d", folder, wish])
        found = glob.glob(os.path.join(folder, f"{name}-*.whl"))
    if not any_version and digest(found[0]) != expected:
        raise Failure(f"{found[0]} does not have the pinned SHA-256 {expected}")
    return found[0]


def fetched(folder):
    """Whether everything has been fetched: the file with the versions is written last."""
    return os.path.exists(os.path.join(folder, "versions"))


def fetch(folder, any_version, tell):
    """Fetches everything into `folder`."""
    complete = os.path.join(folder, "versions")
    if fetched(folder):
        return
    downloads, own, unstable = (os.path.join(folder, part) for part in ("downloads", "own", "unstable"))
    shutil.rmtree(own, ignore_errors=True)
    shutil.rmtree(unstable, ignore_errors=True)
    os.makedirs(downloads, exist_ok=True)
    versions = {}
    for packages, root, options in ((OWN, own, lambda: []), (UNSTABLE, unstable, lambda: unstable_options(folder))):
        chosen = options()
        for name, (version, expected) in packages.items():
            tell(f"fetching {name} {version}")
            path = fetch_package(name, version, expected, chosen, downloads, any_version)
            run(["dpkg-deb", "-x", path, root])
            versions[name] = run(["dpkg-deb", "-f", path, "Version"]).strip()
    tell(f"fetching {WHEEL[0]} {WHEEL[1]}")
    wheel = fetch_wheel(downloads, any_version)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.startswith("triton/backends/nvidia/") and "/include/" not in member:
                archive.extract(member, os.path.join(folder, "wheel"))
    for path in glob.glob(os.path.join(folder, "wheel/triton/backends/nvidia/bin/*")):
        os.chmod(path, 0o755)
    versions[WHEEL[0]] = os.path.basename(wheel).split("-")[1]
    with open(complete + ".new", "w", encoding="utf-8") as file:
        file.writelines(f"{name} {version}\n" for name, version in versions.items())
    os.replace(complete + ".new", complete)


# ---- running


class Tools:
    """The fetched compilers."""

    def __init__(self, folder, any_version=False, tell=lambda text: None):
        fetch(folder, any_version, tell)
        self.folder = folder
        with open(os.path.join(folder, "versions"), encoding="utf-8") as file:
            self.versions = dict(line.split() for line in file)
        root, self.unstable = os.path.join(folder, "own"), os.path.join(folder, "unstable")
        self.llvm = os.path.join(root, "usr/lib/llvm-22")
        self.libraries = f"{root}/usr/lib/x86_64-linux-gnu:{self.llvm}/lib"
        self.libclc_nvidia = os.path.join(root, "usr/lib/clc/nvptx64--nvidiacl.bc")
        self.rocm = os.path.join(self.unstable, "usr/lib/llvm-21/lib/clang/21/amdgcn/bitcode")
        nvidia = os.path.join(folder, "wheel/triton/backends/nvidia")
        self.bin_nvidia, self.libdevice = os.path.join(nvidia, "bin"), os.path.join(nvidia, "lib/libdevice.10.bc")
        self.check()

    def check(self):
        try:
            self.clang("--version")
        except Failure as failure:
            raise Failure(f"{failure}\nthe fetched Clang does not start here; it may lack libraries: apt-get install "
                          "libedit2 libffi8 libxml2 libz3-4") from None

    def clang(self, *arguments):
        return run([os.path.join(self.llvm, "bin/clang"), *arguments],
                   {**os.environ, "LD_LIBRARY_PATH": self.libraries})

    def nvidia(self, tool, *arguments):
        return run([os.path.join(self.bin_nvidia, tool), *arguments])

    def ocloc(self, *arguments, dump):
        """Intel's compiler, with the C library that it was linked with; the compiler leaves its steps in `dump`."""
        libraries = os.path.join(self.unstable, "usr/lib/x86_64-linux-gnu")
        program = glob.glob(os.path.join(self.unstable, "usr/bin/ocloc*"))[0]
        return run([os.path.join(libraries, "ld-linux-x86-64.so.2"), "--library-path", libraries, program, *arguments],
                   {**os.environ, "IGC_ShaderDumpEnable": "1", "IGC_DumpToCustomDir": dump})
