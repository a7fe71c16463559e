# Sourced by the scripts in this folder: messages, system packages on Debian and Ubuntu, building, testing.
# shellcheck shell=bash

say() { printf '%s: %s\n' "${0##*/}" "$*"; }
fail() { say "$*" >&2; exit 1; }

# with_news LOG WHAT COMMAND…   runs COMMAND with its output in LOG, and prints WHAT and the last line of LOG once per minute
news_seconds=60
with_news() {
  local log=$1 what=$2 begin=$SECONDS news status=0
  shift 2
  : >"$log"
  (
    # read instead of sleep: a sleep would outlive this process.
    exec 9<> <(:)
    while ! read -r -t "$news_seconds" -u 9 && kill -0 $$ 2>/dev/null; do
      say "$what for $(((SECONDS - begin + 30) / 60)) min: $(tail -n 1 "$log" | tr -cd '[:print:]' | cut -c 1-100)"
    done
  ) &
  news=$!
  # In a subshell, so that its failure is still reported here.
  ("$@") </dev/null >"$log" 2>&1 || status=$?
  # KILL: a process that has just started would still run this script's EXIT trap.
  kill -KILL "$news" 2>/dev/null || true
  wait "$news" 2>/dev/null || true
  return "$status"
}

# link_command FILE   puts a link to FILE into ~/.local/bin, unless something else there has its name
link_command() {
  local folder=$HOME/.local/bin link=$HOME/.local/bin/${1##*/}
  if { [ -e "$link" ] || [ -L "$link" ]; } && [ "$(readlink "$link")" != "$1" ]; then
    say "$link exists and is not a link to $1: nothing was changed" >&2
    return 1
  fi
  mkdir -p "$folder" && ln -sf "$1" "$link" || return 1
  say "$link is a link to $1"
  case :$PATH: in
    *:"$folder":*) ;;
    *) say "$folder is not on the PATH: export PATH=\"$folder:\$PATH\"" ;;
  esac
}

# PoCL reads the number of processors and the memory size from sysfs, and aborts the program where sysfs is missing, as in a
# bare chroot. hwloc, which PoCL uses, reads them from this variable instead.
if [ "$(uname)" = Linux ] && [ ! -d /sys/devices/system/cpu ] && [ -z "${HWLOC_SYNTHETIC:-}" ]; then
  HWLOC_SYNTHETIC="NUMANode:1(memory=$(($(getconf _PHYS_PAGES) * $(getconf PAGESIZE)))) PU:$(nproc)"
  export HWLOC_SYNTHETIC
  # shellcheck disable=SC2034
  no_sysfs=yes
fi

# The package names of other systems, printed where there is no apt.
other_systems() {
  cat <<'TEXT'
This system has no apt. Install these packages with its own package manager, then run this script again:
  Fedora    sudo dnf install gcc gcc-c++ meson pkgconf-pkg-config ocl-icd-devel opencl-headers zlib-devel libcmocka-devel pocl clinfo
  Arch      sudo pacman -S --needed gcc meson pkgconf ocl-icd opencl-headers zlib cmocka pocl clinfo
  Alpine    sudo apk add build-base meson pkgconf opencl-icd-loader-dev opencl-headers zlib-dev cmocka-dev clinfo bash   (PoCL: build it from source)
  openSUSE  sudo zypper install gcc gcc-c++ meson pkgconf ocl-icd-devel opencl-headers zlib-devel libcmocka-devel pocl clinfo
  macOS     brew install meson ninja pkgconf cmocka   (OpenCL and zlib are part of the system)
TEXT
}

# as_root COMMAND…   runs COMMAND as root, with sudo if needed
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else fail "this needs root, and sudo is not installed; as root, run: $*"
  fi
}

# need_root PACKAGE…   ends the script if apt cannot be run as root, and prints what to do instead
need_root() {
  if [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1; then return; fi
  fail "these packages are missing, and sudo is not installed: $*
As root, run:
  apt-get update && apt-get install --no-install-recommends $*
Without root, use a wheel, which needs no packages. Make one with tools/wheel on a machine that has them, then run:
  python3 -m pip install 'FILE.whl[cpu]'    (docs/python.md)"
}

# need_network PACKAGE…   ends the script if none of apt's servers responds. apt itself waits for minutes where packets are
# dropped, and then reports that it cannot find the packages.
need_network() {
  local uris uri rest host port silent=
  # With a proxy, only apt can find out which servers are reachable.
  if [ -n "${http_proxy:-}${https_proxy:-}${all_proxy:-}" ] || apt-config dump 2>/dev/null | grep -qi '^Acquire::.*Proxy'; then
    return
  fi
  # shellcheck disable=SC2016
  uris=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 2>/dev/null | sort -u) || return 0
  for uri in $uris; do
    case $uri in
      http://*) port=80 ;;
      https://*) port=443 ;;
      *) return ;;
    esac
    rest=${uri#*://}
    rest=${rest%%/*}
    host=${rest##*@}
    case $host in
      *:*) port=${host##*:} host=${host%:*} ;;
    esac
    case " $silent " in *" $host "*) continue ;; esac
    if timeout 8 bash -c ": <>'/dev/tcp/$host/$port'" 2>/dev/null; then return; fi
    silent="$silent $host"
  done
  [ -z "$silent" ] || fail "apt's servers do not respond (${silent# }): is there a network? These packages are missing: $*"
}

# missing_packages PACKAGE…   prints the packages that are not installed
missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
  done
}

# DPkg::Lock::Timeout: another apt may be running, for example on a new machine.
apt_install() {
  as_root apt-get -o DPkg::Lock::Timeout=300 update -qq &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
      install -y -qq --no-install-recommends "$@"
}

# install_packages PACKAGE…   installs missing packages, after printing their names
install_packages() {
  local missing log
  if ! command -v apt-get >/dev/null 2>&1; then
    if command -v meson >/dev/null && command -v cc >/dev/null; then
      say "no apt here: continuing with the installed packages"
      return
    fi
    other_systems >&2
    exit 1
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086
  need_root $missing
  # shellcheck disable=SC2086
  need_network $missing
  say "installing with apt: $missing"
  log=$(mktemp)
  # shellcheck disable=SC2086
  if ! with_news "$log" installing apt_install $missing; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    fail "apt could not install: $missing"
  fi
  rm -f "$log"
}

# use_meson   makes sure that `meson` is 1.0 or newer: on older systems, it is installed from PyPI into a separate folder
use_meson() {
  local version folder=${XDG_CACHE_HOME:-$HOME/.cache}/koine-meson
  version=$(meson --version 2>/dev/null || echo 0)
  [ "${version%%.*}" -ge 1 ] && return
  if [ ! -x "$folder/bin/meson" ]; then
    say "meson $version is older than 1.0: installing a newer one from PyPI into $folder"
    install_packages python3-venv
    rm -rf "$folder"
    { python3 -m venv "$folder" && "$folder/bin/pip" install -qq --retries 1 --timeout 10 'meson>=1.0,<2'; } ||
      fail "meson could not be installed from PyPI: is there a network?"
  fi
  PATH=$folder/bin:$PATH
}

# shellcheck disable=SC2034  # used by the scripts that source this
# libc6-dev, because packages that gcc only recommends are not installed.
build_packages=(gcc libc6-dev meson ninja-build pkg-config ocl-icd-opencl-dev opencl-headers zlib1g-dev libcmocka-dev
  pocl-opencl-icd)
# shellcheck disable=SC2034
# g++ compiles the public headers as C++; binutils reads the library's symbols; cffi and numpy are for the Python package.
# The image libraries and MPI are optional for users. Meson uses ccache if it is installed, which makes a second build folder fast.
test_packages=(g++ binutils ccache python3 python3-cffi python3-numpy libjpeg-dev libpng-dev libarchive-dev
  libpcre2-dev libutf8proc-dev libmicrohttpd-dev
  libopenmpi-dev openmpi-bin)

# used_seconds FILE   writes the processor time of this shell's finished child processes into FILE; a subshell starts at zero
used_seconds() {
  times >"$1"
  sed -n '2s/[ms]/ /gp' "$1" | awk '{ print $1 * 60 + $2 + $3 * 60 + $4 }' >"$1.sum" && mv "$1.sum" "$1"
}

# Without the cache, Meson looks again for libraries that were missing.
reconfigure() {
  meson configure --clearcache "$1" && meson setup --reconfigure "$@"
}

# Changes whenever a package is installed or removed.
package_list=/var/lib/dpkg/status

# build_koine FOLDER TARGET [MESON OPTION…]   configures FOLDER if it is new or older than the installed packages, and
# builds quietly. Without reconfiguring, optional libraries that were installed later would not be used. Sets build_seconds
# to the processor time, for run_tests.
build_seconds=
build_koine() {
  local folder=$1 target=$2 log=$1/build.log before=$1/seconds-before after=$1/seconds-after
  shift 2
  mkdir -p "$folder"
  used_seconds "$before"
  if [ ! -f "$folder/build.ninja" ]; then
    say "configuring $folder"
    with_news "$log" configuring meson setup "$folder" "$@" || { tail -n 25 "$log" >&2; fail "meson setup failed"; }
  elif [ "$package_list" -nt "$folder/build.ninja" ]; then
    say "reconfiguring $folder, since packages were installed"
    with_news "$log" configuring reconfigure "$folder" "$@" || { tail -n 25 "$log" >&2; fail "meson setup failed"; }
  elif [ $# != 0 ]; then
    with_news "$log" configuring meson configure "$folder" "$@" || { tail -n 25 "$log" >&2; fail "meson configure failed"; }
  fi
  say "building in $folder"
  with_news "$log" building ninja -C "$folder" "$target" || {
    grep -vE '^\[[0-9]+/[0-9]+\] (Comp|Link|Gen)' "$log" | tail -n 40 >&2
    fail "the build failed; its complete output is in $log (if $folder was copied from another place, remove it first)"
  }
  used_seconds "$after"
  build_seconds=$(cat "$after" "$before" | awk 'NR == 1 { after = $1 } NR == 2 { print after - $1 }')
  rm -f "$before" "$after"
}

# test_names FOLDER [MESON TEST ARGUMENT…]   prints the names of the tests that these arguments select. Newer versions of
# Meson list them as "fast - koine:NAME", older ones as "koine:fast / NAME".
test_names() {
  local folder=$1
  shift
  meson test -C "$folder" --no-rebuild --list "$@" 2>/dev/null | sed -En 's#^(.* / |(.* - )?koine:)([^ ]+)$#\3#p'
}

# say_minutes FOLDER SECONDS [MESON TEST ARGUMENT…]   prints an estimate of the time for building and these tests. SECONDS
# is the processor time with nothing built, on the processor that test_progress.py names; durations of an earlier run in FOLDER
# are used instead if they exist.
say_minutes() {
  local folder=$1 seconds=$2 names minutes
  shift 2
  names=$(mktemp)
  if [ -f "$folder/build.ninja" ]; then test_names "$folder" "$@" >"$names" || true; fi
  minutes=$(python3 tools/test_progress.py --estimate "$folder/test-durations.tsv" "$names" "$seconds") || minutes=
  rm -f "$names"
  [ -z "$minutes" ] || say "about $minutes min on this machine, more if other programs are running"
}

# share_test_cache FOLDER   makes all build folders share one cache of compiled programs, the folder KOINE_TEST_CACHE, where
# entries are named by the hash of their content. If the variable is empty, the cache is in FOLDER. Measurements of devices
# always stay in FOLDER.
share_test_cache() {
  local folder=$1/tests/cache shared=${KOINE_TEST_CACHE-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/koine-tests} name place
  [ -n "$shared" ] || return 0
  for name in pocl koine/programs mesa_shader_cache ccache unoptimized/pocl unoptimized/koine/programs; do
    place=$folder/$name
    # Keep an existing folder.
    if [ -d "$place" ] && [ ! -L "$place" ]; then continue; fi
    mkdir -p "$shared/$name" "${place%/*}" && ln -sfn "$shared/$name" "$place" || return 1
  done
  python3 tools/test_cache.py "$shared"
}

# run_meson_tests FOLDER NAME PATIENCE WORK ARGUMENT…   runs tests with watch_test.py; WORK is a folder with the file `names`
run_meson_tests() {
  local folder=$1 name=$2 patience=$3 work=$4
  shift 4
  # The developer's own settings of the command must not affect the tests.
  env -u KOINE_DEVICE -u KOINE_KERNEL_DIR -u NO_COLOR KOINE_TEST_LIST="$PWD/$folder/meson-info/intro-tests.json" \
    KOINE_TEST_PATIENCE="$patience" KOINE_TEST_PROGRESS="$work/progress" KOINE_TEST_TIMES="$work/times" \
    meson test -C "$folder" --no-rebuild --logbase "$name" --timeout-multiplier 0 \
    --wrapper "python3 $PWD/tools/watch_test.py" "$@" </dev/null 2>&1 |
    python3 tools/test_progress.py "$work/progress" "$folder/test-durations.tsv" "$work/names" || true
}

# rerun_crashed FOLDER NAME PATIENCE WORK LOG ARGUMENT…   runs the tests again that crashed or hung according to LOG
rerun_crashed() {
  local folder=$1 name=$2 patience=$3 work=$4 log=$5 suites=() crashed
  shift 5
  crashed=$(python3 tools/test_report.py --crashed "$log") || return 0
  [ -n "$crashed" ] || return 0
  # Drop test names but keep suites: without its suite, meson does not find a nightly test.
  while [ $# != 0 ]; do
    case $1 in --suite | --no-suite) suites+=("$1" "$2"); shift ;; esac
    shift
  done
  printf '%s\n' "$crashed" >"$work/names"
  # shellcheck disable=SC2086
  say "running again after a crash:" $crashed
  # shellcheck disable=SC2086
  run_meson_tests "$folder" "$name-again" "$patience" "$work" ${suites[@]+"${suites[@]}"} $crashed
}

# run_tests FOLDER NAME PATIENCE [MESON TEST ARGUMENT…]   prints a line for each test and progress every ten seconds, then
# the failed tests, the slowest tests, where the time went, and the counts.
# NAME is the name of the log (meson adds the name of the wrapper). PATIENCE multiplies the tests' time limits. KOINE_SUSPECT
# is a regular expression; a test whose output matches it fails. KOINE_RERUN_CRASHED=yes: a test that crashed or hung runs
# once more, is listed, and fails if that happens again. FOLDER/test-durations.tsv gets the durations of all tests.
run_tests() {
  local folder=$1 name=$2 patience=$3 log=$1/meson-logs/$2-python3.json again=$1/meson-logs/$2-again-python3.json work begin
  shift 3
  rm -f "$log" "$again"
  work=$(mktemp -d) || fail "no temporary folder can be made"
  mkdir "$work/progress"
  begin=$(date +%s)
  share_test_cache "$folder" || say "the tests' kernel cache is in $folder, since the shared folder cannot be written" >&2
  test_names "$folder" "$@" >"$work/names" || true
  run_meson_tests "$folder" "$name" "$patience" "$work" "$@"
  if [ ! -s "$log" ]; then
    rm -rf "$work"
    fail "meson test ran nothing"
  fi
  [ "${KOINE_RERUN_CRASHED:-}" != yes ] || rerun_crashed "$folder" "$name" "$patience" "$work" "$log" "$@"
  local status=0
  python3 tools/test_report.py ${KOINE_SUSPECT:+--suspect "$KOINE_SUSPECT"} --times "$work/times" \
    "$folder/test-durations.tsv" "$folder/tests/cache" "$begin" "$build_seconds" "$log" "$again" || status=$?
  rm -rf "$work"
  return "$status"
}
