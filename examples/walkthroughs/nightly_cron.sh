#!/bin/sh
# An ops person runs everlearn from cron, in a container where only one folder can be written.
# Cron sends a mail if a command prints something, so good runs must print nothing.
# The script makes its own data. It works in the current folder.
set -eu
data=$PWD

# As cron starts it: almost no environment, no home, no writable folder but the one of the data.
as_cron() {
    (cd / && env -i PATH="$PATH" HOME=/nonexistent LANG=C "$@")
}
rows() {  # FIRST LAST
    awk -v first="$1" -v last="$2" 'BEGIN {
        srand(first)
        for (i = first; i <= last; i++)
            printf "{\"host\": \"n%d\", \"cpu\": %.3f, \"mem\": %.3f}\n", i % 4,
                i % 2 ? rand() : 9 + rand(), i % 2 ? 2 + rand() : rand()
    }'
}
learn() {
    as_cron everlearn learn "$data/ops.evl" "$data/app.jsonl" --kind mixture --columns cpu,mem -q
}
expect() {  # CODE: that of the last command; its words are in "message"
    code=$?
    cat message
    test "$code" -eq "$1" || { echo "exit code $code, expected $1"; exit 1; }
}

echo "== The first night: nothing is there yet"
: > app.jsonl
learn 2> message || expect 2
grep -q "holds no records" message
test ! -e ops.evl
test ! -e ops.evl.lock

echo "== The second night, and one without anything new: no mail"
rows 1 300 > app.jsonl
learn > message 2>&1
learn >> message 2>&1
test ! -s message

echo "== The log was rotated: the file of the same name is a new one, empty at first"
mv app.jsonl app.jsonl.1
: > app.jsonl
learn > message 2>&1
rows 301 400 > app.jsonl
learn >> message 2>&1
test ! -s message

echo "== A broken exporter does not go unnoticed"
printf 'oops\noops\n' > broken.jsonl
as_cron everlearn learn "$data/ops.evl" "$data/broken.jsonl" -q 2> message || expect 2
grep -q "none of 2 new records of '$data/broken.jsonl' could be learned" message

echo "== A model that cannot be written is named"
as_cron everlearn learn "$data/models/ops.evl" "$data/app.jsonl" -q 2> message || expect 2
grep -q "there is no folder '$data/models' for the model; create it first" message

echo "== Monitoring reads JSON"
as_cron everlearn show "$data/ops.evl" --json > shown.json
grep -q '"records": 400, "batches": 4, "bad": 2' shown.json
as_cron everlearn log "$data/ops.evl" --json > log.jsonl
tail -n 1 log.jsonl
test "$(wc -l < log.jsonl)" -eq 4
