#!/usr/bin/env bash
# Makes the virtual environment $1 and puts the project into it, editable. Needs no root.
set -euo pipefail
venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup: Python 3.11 or newer is needed, but $python is $("$python" --version 2>&1 | cut -d' ' -f2); try PYTHON=python3.12 make setup" >&2
    exit 1
}
[ -x "$venv/bin/python" ] || { echo "setup: making $venv with $("$python" --version)"; "$python" -m venv "$venv"; }

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    [ -x "$venv/bin/uv" ] || { echo "setup: installing uv into $venv"; "$venv/bin/python" -m pip install --quiet "uv>=0.5"; }
    uv="$venv/bin/uv"
fi
echo "setup: installing the pinned dependencies"
"$uv" pip install --python "$venv/bin/python" --require-hashes -r requirements/dev.txt
"$uv" pip install --python "$venv/bin/python" --no-deps --no-build-isolation --quiet -e .
"$venv/bin/python" -m compileall -q src  # where PYTHONDONTWRITEBYTECODE is set nobody else does it
echo "setup: done; try $venv/bin/tw --help"
