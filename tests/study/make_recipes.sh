#!/usr/bin/env bash
# The recipes in docs/recipes, with the study's settings, for the default teacher: run again when a recipe's defaults change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
make() { # NAME OPTIONS...
    local file=docs/recipes/$1.json
    shift
    ./linnet cli recipe new default --device cuda --quiet --out "$file" "$@"
    sed -i 's/"device": "cuda"/"device": "auto"/' "$file" # a GPU's settings, for any device
}
make closed-form --preset linnet --steps 0 --drift refit --keep greedy:15
make half --preset linnet --steps 300 --keep greedy:15
make quarter --preset linnet --steps 300 --distill-steps 200 --keep greedy:8
make none --preset linnet --steps 300 --distill-steps 200 --keep first:0
make published --preset reference --steps 300 --keep uniform:15
make published-fixed --preset paper --steps 300 --keep uniform:15
make sliding-window --preset sliding-window --keep uniform:15
