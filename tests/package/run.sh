#!/usr/bin/env bash
# Makes the Debian package of a build and looks at what it would put in place.
# Usage: run.sh BUILD_DIR MODEL.gguf
set -euo pipefail
build=$(cd "$1" && pwd)
model=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$build" && cpack -G DEB -B "$work") > "$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
package=$(find "$work" -maxdepth 1 -name 'bass_*.deb')
[ -n "$package" ] || { cat "$work/cpack.log"; echo "there is no package"; exit 1; }
for needed in libc6 libstdc++6 libcurl4 libpcre2-8-0 libfmt9; do
  dpkg-deb -f "$package" Depends | grep -qF "$needed" || { echo "Depends lacks $needed"; exit 1; }
done
dpkg-deb -x "$package" "$work/root"
for file in bin/bass lib/libbass.so include/bass/engine.h lib/pkgconfig/bass.pc lib/cmake/bass/bass-config.cmake \
  share/bass/models/smollm2-135m-draft.gguf share/doc/bass/copyright; do
  [ -e "$work/root/usr/$file" ] || { echo "the package lacks usr/$file"; exit 1; }
done
grep -q '^prefix=/usr$' "$work/root/usr/lib/pkgconfig/bass.pc" || { echo "bass.pc names another prefix"; exit 1; }
if find "$work/root" -name '*_test' -o -name '*.py' | grep .; then echo "these are no part of it"; exit 1; fi
"$work/root/usr/bin/bass" --version | grep -q "$(dpkg-deb -f "$package" Version)" || { echo "its version is another"; exit 1; }
"$work/root/usr/bin/bass" generate -m "$model" -p "def f" --max-tokens 4 --quiet | grep -q . || { echo "it generates nothing"; exit 1; }
echo "the Debian package works"
