#!/usr/bin/env bash
# From nothing to a figure: a two-level tree with a prefill chunk is drawn, played, and exported as a figure and as an
# animation. Pictures, figure.svg and run.apng lie in target/stories/draw-and-play.
source "$(dirname "${BASH_SOURCE[0]}")/window.sh"

# Where the canvas of the prefix tree begins, where it is free under a root, and where the strip for prefill lies.
left=345 top=185 below=400 strip=462

open view teach-6-tiny
palette new empty batch
shot 1-nothing

# A root that 16 requests share; its figures are typed. Then below it children of their own, and a chunk in the strip.
drag $left $top $((left + 300)) $((top + 80))
press Return
press ctrl+a
write 1024
press Tab
press ctrl+a
write 1
press Tab
press ctrl+a
write 16
press Return
shot 2-root
xdotool keydown alt
drag $((left + 10)) $below $((left + 150)) $((below + 25))
xdotool keyup alt
shot 3-child
drag $((left + 100)) $strip $((left + 260)) $strip
shot 4-chunk

# The scheduler's choices as they are made, then step by step into the run. A click beside it takes the keyboard from the
# canvas.
palette show playback
click 1300 $((${SIZE#*x} - 12))
xdotool key space
sleep 2
now 5-choices
xdotool key space
press $(yes Right | head -60)
shot 6-run

palette show timeline
press ctrl+e
press ctrl+a
write "$OUT/figure.svg"
press Return
press ctrl+e
press ctrl+a
write "$OUT/run.apng"
press Return
sleep 4
shot 7-exported
holds "$OUT/figure.svg" "$OUT/run.apng"
grep -q '<svg' "$OUT/figure.svg"
