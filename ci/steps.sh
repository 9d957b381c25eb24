# For scripts that run several commands, one after the other: `. ci/steps.sh`, `step COMMAND...` for each, and `total` at the end.
# `begin COMMAND...` runs a command beside the steps that follow, for what keeps one processor busy; `step begun` waits for it and counts it.
# Every step runs, so that one failure does not hide another; any failure fails the whole. The last line is the counts over all.
started=$(date +%s)
passed=0 failed=0 skipped=0

minutes() {
    echo $((($(date +%s) - started) / 60))
}

step() {
    echo "=== $*  [$(minutes) min]"
    log=$(mktemp)
    { "$@" 2>&1; echo "exit-status $?"; } | tee "$log" | grep --line-buffered -v '^exit-status '
    status=$(sed -n 's/^exit-status //p' "$log" | tail -n 1)
    # A step that runs tests ends with its own counts; another one is one test.
    counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log" | tail -n 1)
    rm -f "$log"
    if [ -n "$counts" ]; then
        set -- $counts
    elif [ "$status" = 0 ]; then
        set -- 1 0 0
    else
        set -- 0 1 0
    fi
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    if [ "$status" != 0 ] && [ "$2" = 0 ]; then
        failed=$((failed + 1))
    fi
}

begin() {
    echo "=== $*  begins  [$(minutes) min]"
    beside=$(mktemp -d)
    { "$@" >"$beside/log" 2>&1; echo $? >"$beside/status"; } &
}

begun() {
    # A step runs in a shell of its own, which cannot wait for this one's process.
    until [ -s "$beside/status" ]; do
        sleep 1
    done
    cat "$beside/log"
    return "$(cat "$beside/status")"
}

total() {
    echo "took $(minutes) minutes"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
