#!/usr/bin/env bash
# Why is pat slow on this batch, and what mends it? Pictures in target/stories/mend-pat.
#
# Traffic says that node 0 is read 64 times. Decisions says why: each child of node 1 was split off from it, which writes
# and reads partials, where merging would move less than half of the bytes; the rule flips at a constant of 4.50. With
# that tried, the comparison has the run before, from its capture, beside the run after, on one time axis.
SIZE=2200x1300
source "$(dirname "${BASH_SOURCE[0]}")/window.sh"

"$PACKSCOPE" run pat-11 --backend sim --device h200-sxm --scheduler pat --strategy streams -o "$OUT/before.pscope" >/dev/null
holds "$OUT/before.pscope"

open view "$OUT/before.pscope"
shot 1-slow

palette show decisions
palette plan and simulate again
click 1176 325
shot 2-why

# The button that tries the constant just past where the choice flips.
click 1253 544
shot 3-tried

# The run before, from its capture, is the first row of the comparison and so its baseline.
palette show compare
click 162 667
click 260 944
write "$OUT/before.pscope"
press Return
sleep 5
shot 4-proven
