#!/bin/sh
# Pictures of every page, in light and dark, at 1280x800, 1920x1080 and 200 %, and those of the README.
#   tests/gui/screenshots.sh [OUT]     (default: build/screenshots; builds what it needs; LINNET_TEACHER, LINNET_TEXT: what to show)
set -eu
cd "$(dirname "$0")/../.."
build=${LINNET_BUILD:-build/release}
out=${1:-build/screenshots}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/linnet
teacher=${LINNET_TEACHER:-$cache/teacher/SmolLM2-135M-Instruct.Q4_1.gguf}
text=${LINNET_TEXT:-$(sed -n 's/^LINNET_TEXT:FILEPATH=//p' "$build/CMakeCache.txt")}
[ -n "${LINNET_NO_BUILD:-}" ] || cmake --build "$build" --target linnet_screenshots
shoot() { # folder size scale [icon]
    QT_QPA_PLATFORM=offscreen QT_SCALE_FACTOR=$3 OMP_WAIT_POLICY=passive \
        "$build/bin/linnet_screenshots" "$out/$1" "$teacher" "$text" "$2" "$out/work" ${4:+"$4"}
}
shoot 1280x800 1280x800 1 resources/io.github.linnet.Linnet.png
shoot 1920x1080 1920x1080 1
shoot 200 1280x800 2
mkdir -p docs/images
cp "$out/1280x800/light-heads.png" docs/images/heads.png
cp "$out/1280x800/light-curves.png" docs/images/curves.png
cp "$out/1280x800/light-dock-probeDock.png" docs/images/probe.png
