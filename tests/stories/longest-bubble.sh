#!/usr/bin/env bash
# A measured capture with counters, by keyboard: its longest bubble, the CTA that bounds it, a mark, the counters over the
# bubble, a picture of it; then the window is killed, started again, and all is as it was.
. "$(dirname "$0")/window.sh"

session=$HOME/packscope/session.ron
marks() { grep -o 'marks:([^)]*)' "$session"; }

open view "$root/tests/fixtures/capture-v2-tail.pscope"
shot 1-opened
press b
shot 2-the-longest-bubble
press bracketright
shot 3-the-cta-that-bounds-it
press b r m
shot 4-marked-with-its-counters
press ctrl+e
press ctrl+a
write "$OUT/bubble.svg"
press Return
settle
holds "$OUT/bubble.svg"
grep -q '<svg' "$OUT/bubble.svg" || { echo "$story: the picture is no SVG" >&2; exit 1; }
# The session is at most a second behind.
sleep 2
before=$(marks)
[ -n "$before" ] && [ "$before" != "marks:([])" ] || { echo "$story: the session has no mark" >&2; exit 1; }
kill -9 "$window"
open
shot 5-as-it-was
sleep 2
[ "$(marks)" = "$before" ] || { echo "$story: the marks are others than before" >&2; exit 1; }
grep -q 'capture-v2-tail.pscope' "$session" || { echo "$story: the capture is gone" >&2; exit 1; }
grep -q 'selected:Gap(measured' "$session" || { echo "$story: the bubble is not selected any more" >&2; exit 1; }
