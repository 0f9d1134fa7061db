#!/usr/bin/env bash
# Pins the dependencies with hashes, in files that name no download address.
set -euo pipefail
bin=$1
uv=$(command -v uv || echo "$bin/uv")
flags=(--quiet --universal --generate-hashes --no-header --no-emit-index-url --no-annotate --no-emit-find-links)
echo "lock: requirements/dev.txt"
"$uv" pip compile "${flags[@]}" --python-version 3.11 --group dev pyproject.toml requirements/build.in -o requirements/dev.txt
echo "lock: requirements/runtime.txt and requirements/build.txt, for images"
"$uv" pip compile "${flags[@]}" --python-version 3.11 -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
"$uv" pip compile "${flags[@]}" --python-version 3.11 -c requirements/dev.txt requirements/build.in -o requirements/build.txt
"$bin/python" tools/frameworks.py --pythons | while read -r framework python; do
    echo "lock: requirements/$framework.txt for Python $python"
    "$uv" pip compile "${flags[@]}" --python-version "$python" "requirements/$framework.in" -o "requirements/$framework.txt"
done
