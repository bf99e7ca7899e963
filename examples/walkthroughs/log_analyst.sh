#!/bin/sh
# A log analyst has a table from Excel: semicolons, decimal commas, Latin-1, and columns of texts.
# The script makes its own data. It works in the current folder.
set -eu

# 500 requests: most are quick, every fifth sends large files slowly.
make_export() {  # FIRST LAST
    awk -v first="$1" -v last="$2" 'BEGIN {
        srand(first)
        for (i = first; i <= last; i++) {
            noise = rand() + rand() + rand()
            slow = i % 5 == 0
            ms = slow ? 800 + 90 * noise : 20 + 6 * noise
            kb = slow ? 5200 + 300 * rand() : 40 + 9 * rand()
            line = sprintf("%d;%02d.05.2024 10:%02d;K\366ln-%d;", i, i % 28 + 1, i % 60, i % 3)
            ms = sprintf("%.2f", ms); sub(/\./, ",", ms)
            kb = slow ? sprintf("%d.%03d,5", kb / 1000, kb % 1000) : sprintf("%.1f", kb)
            if (!slow) sub(/\./, ",", kb)
            if (i % 50 == 7) kb = "NA"
            printf "%s%s;%s\r\n", line, ms, kb
        }
    }'
}
{ printf 'Nr;Zeit;Stra\337e;Latenz (ms);Gr\366\337e (kB)\r\n'; make_export 1 500; } > export.csv

echo "== The first try says what is missing, and leaves nothing behind"
everlearn learn web.evl export.csv --kind mixture 2> message && exit 1
cat message
grep -q -- "add --encoding latin-1" message
test "$(ls)" = "$(printf 'export.csv\nmessage')"

echo "== With the encoding, it names the columns that it learns from"
everlearn learn web.evl export.csv --kind mixture --encoding latin-1 2> message
cat message
grep -q "Latenz (ms),Größe (kB)', with decimal commas; left out: Nr (ids" message
grep -q "500 new records (500 in all)" message

echo "== What was found"
everlearn show web.evl > shown
sed -n 1,15p shown
grep -q "^components *2 *$" shown

echo "== The next day the file has grown; no option is needed"
{ make_export 501 620; printf '621;01.06.2024 10:00;K\366ln-0;viel;1,5\r\n'; } >> export.csv
everlearn learn web.evl export.csv 2> message
cat message
grep -q "120 new records (620 in all), 1 bad one set aside in web.evl.quarantine.jsonl" message

echo "== Which requests of today are odd? The least likely first"
printf 'Nr;Zeit;Stra\337e;Latenz (ms);Gr\366\337e (kB)\r\n' > today.csv
make_export 700 719 >> today.csv
printf '720;01.06.2024 10:00;K\366ln-1;300,5;2.600,0\r\n' >> today.csv
everlearn predict web.evl today.csv > answers.jsonl
sed 's/.*"log_likelihood": \([-0-9.e]*\).*/\1 &/' answers.jsonl | sort -g | cut -d ' ' -f 2- > odd
head -n 3 odd
head -n 1 odd | grep -q "\"place\": $(wc -c < today.csv | tr -d ' ')"
