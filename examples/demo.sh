#!/bin/sh
# Runs demo.py in a venv of its own, with hooklatch and what that needs, and nothing that only its developers need;
# `demo.sh fleet` runs demo_fleet.py in another one, with the extra that a fleet needs.
# `make demo PYTHON=/path/to/python` takes another Python.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
case "${1:-}" in
"") script=demo.py what=. packages="the packages that it needs" venv=${VENV:-build/venv-demo} ;;
fleet) script=demo_fleet.py what=".[fleet]" packages="the packages that a fleet needs" venv=${VENV:-build/venv-demo-fleet} ;;
*) echo "usage: demo.sh [fleet]" >&2 && exit 64 ;;
esac

fail() {
    echo "demo: $1" >&2
    exit 1
}

[ "$(uname -s)" = Linux ] || fail "the daemon needs Linux; only its clients run elsewhere"
command -v "$python" >/dev/null || fail "there is no $python: install Python 3.11 or later, or name one: make demo PYTHON=/path/to/python"
[ "$script" = demo.py ] || command -v redis-server >/dev/null \
    || fail "there is no redis-server, the engine of the demo: on Debian and Ubuntu, apt install redis-server"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || fail "$("$python" --version) is too old: hooklatch needs 3.11 or later; name one: make demo PYTHON=/path/to/python"

if [ ! -e "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ]; then
    "$python" -c 'import venv, ensurepip' 2>/dev/null \
        || fail "$python cannot make a venv: on Debian and Ubuntu, apt install python3-venv"
    echo "making a venv in $venv ..."
    "$python" -m venv --clear "$venv" || fail "the venv could not be made; the reason is above"
    echo "installing hooklatch and $packages from the package index (once; it may take a minute) ..."
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$what" \
        || fail "they could not be installed; the reason is above (without a network, see pip's --find-links)"
    touch "$venv/.ready"
fi
exec "$venv/bin/python" "examples/$script"
