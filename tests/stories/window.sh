# What the stories share: a window on an X server of its own, hands, and pictures. To be sourced.
#
#   open ARGS…        starts the window with these arguments of packscope, and waits until it stands still
#   settle            waits until two pictures after each other are the same
#   shot NAME         a picture of the window once it stands still: $OUT/NAME.png; now NAME at once, while it plays
#   click X Y         a click; double X Y for two of them; point X Y goes there without
#   drag X Y X2 Y2    from one place to another, in steps
#   press KEY…        keys as xdotool names them: ctrl+z, Escape
#   write TEXT        types a text
#   palette WORDS     does the command of the palette that these words find first
#   load FILE         opens a file by the prompt
#   holds FILE…       fails the story unless these files are there and not empty
#
# Needs Xvfb, xdotool and ImageMagick. PACKSCOPE is the program (default: target/debug/packscope), OUT the folder of
# the pictures (default: target/stories/NAME of the story), DISPLAY_NUMBER the display (default: 73).

set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
story=$(basename "$0" .sh)
PACKSCOPE=${PACKSCOPE:-$root/target/debug/packscope}
OUT=${OUT:-$root/target/stories/$story}
SIZE=${SIZE:-1600x1000}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)

for tool in Xvfb xdotool import compare; do
    command -v "$tool" >/dev/null || { echo "$story: $tool is not here; install xvfb, xdotool and imagemagick" >&2; exit 3; }
done
[ -x "$PACKSCOPE" ] || { echo "$story: $PACKSCOPE is not built; run: cargo build" >&2; exit 3; }

home=$(mktemp -d)
export DISPLAY=:${DISPLAY_NUMBER:-73} LIBGL_ALWAYS_SOFTWARE=1 HOME=$home XDG_DATA_HOME=$home XDG_STATE_HOME=$home
unset WAYLAND_DISPLAY WAYLAND_SOCKET
Xvfb "$DISPLAY" -screen 0 "${SIZE}x24" >/dev/null 2>&1 &
server=$!
window=
trap 'kill $window $server 2>/dev/null || true; rm -rf "$home"' EXIT
for _ in $(seq 100); do
    xdotool getdisplaygeometry >/dev/null 2>&1 && break
    sleep 0.1
done

open() {
    if [ -n "$window" ]; then
        kill "$window" 2>/dev/null || true
        wait "$window" 2>/dev/null || true
    fi
    "$PACKSCOPE" "$@" 2>"$OUT/stderr.txt" &
    window=$!
    id=$(xdotool search --sync --onlyvisible --name '^packscope$' | tail -1)
    xdotool windowmove --sync "$id" 0 0 windowsize "$id" "${SIZE%x*}" "${SIZE#*x}" windowfocus --sync "$id"
    settle
}

settle() {
    local before=none now _
    for _ in $(seq 120); do
        sleep 0.25
        now=$(import -window root -depth 8 rgb:- | cksum)
        [ "$now" = "$before" ] && return
        before=$now
    done
}

shot() {
    settle
    now "$1"
}

now() {
    import -window root "$OUT/$1.png"
    echo "$story: $1"
}

point() { xdotool mousemove --sync "$1" "$2"; sleep 0.2; }
click() { point "$1" "$2"; xdotool click 1; settle; }
double() { point "$1" "$2"; xdotool click --repeat 2 --delay 60 1; settle; }
press() { xdotool key --delay 60 "$@"; settle; }
write() { xdotool type --delay 15 "$1"; settle; }

drag() {
    local x=$1 y=$2 to_x=$3 to_y=$4 step
    point "$x" "$y"
    xdotool mousedown 1
    for step in 1 2 3 4 5 6 7 8; do
        xdotool mousemove --sync $((x + (to_x - x) * step / 8)) $((y + (to_y - y) * step / 8))
        sleep 0.05
    done
    sleep 0.2
    xdotool mouseup 1
    settle
}

palette() {
    press ctrl+shift+p
    write "$*"
    press Return
}

load() {
    press ctrl+o
    write "$1"
    press Return
}

holds() {
    local file
    for file in "$@"; do
        [ -s "$file" ] || { echo "$story: $file is not there" >&2; exit 1; }
    done
}
