#!/usr/bin/env bash
# Pins the dependencies with hashes, in files that name no download address.
set -euo pipefail
bin=$1
uv=$(command -v uv || echo "$bin/uv")
flags=(--quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate --no-emit-find-links)
echo "lock: requirements/dev.txt"
"$uv" pip compile "${flags[@]}" --group dev pyproject.toml requirements/build.in -o requirements/dev.txt
for framework in requirements/*.in; do
    case "$framework" in requirements/build.in) continue ;; esac
    echo "lock: ${framework%.in}.txt"
    "$uv" pip compile "${flags[@]}" "$framework" -o "${framework%.in}.txt"
done
