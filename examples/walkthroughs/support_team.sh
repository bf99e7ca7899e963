#!/bin/sh
# A support team has a folder of old tickets, and new mails that come as JSON lines through a pipe.
# The script makes its own data. It works in the current folder.
set -eu

make_text() {  # NUMBER: 30 words about one of three subjects
    awk -v n="$1" 'BEGIN {
        srand(n)
        split("invoice refund payment card charge receipt bank price discount billing", s0, " ")
        split("password login account reset locked browser session email token access", s1, " ")
        split("parcel delivery address courier late tracking damaged return warehouse box", s2, " ")
        for (i = 0; i < 30; i++) {
            k = int(rand() * 10) + 1
            printf "%s ", n % 3 == 0 ? s0[k] : n % 3 == 1 ? s1[k] : s2[k]
        }
    }'
}
queue() {
    case $(($1 % 3)) in 0) echo billing ;; 1) echo login ;; 2) echo shipping ;; esac
}
mails() {  # FIRST LAST
    i=$1
    while [ "$i" -le "$2" ]; do
        echo "{\"id\": $i, \"queue\": \"$(queue "$i")\", \"body\": \"$(make_text "$i")\"}"
        i=$((i + 1))
    done
}
mkdir tickets
i=1
while [ "$i" -le 90 ]; do
    make_text "$i" > "tickets/$i.txt"
    i=$((i + 1))
done

echo "== A kind that is not there"
everlearn learn topics.evl tickets --kind lda 2> message && exit 1
cat message
grep -q "did you mean topics?" message

echo "== Topics of the old tickets"
everlearn learn topics.evl tickets --kind topics --set n_topics=3 2> message
cat message
grep -q "90 new records (90 in all)" message

echo "== New mails come through a pipe; their text is in another field"
mails 91 150 > mails.jsonl
everlearn learn topics.evl - < mails.jsonl 2> message && exit 1
cat message
grep -q -- "choose it with --text: id, queue, body" message
everlearn learn topics.evl - --text body < mails.jsonl 2> message
cat message
grep -q "60 new records (150 in all)" message

echo "== The same mails again teach nothing"
everlearn learn topics.evl - < mails.jsonl 2> message
cat message
grep -q "0 new records (150 in all)" message

echo "== A classifier learns the queue of each mail, and sorts new ones"
everlearn learn queues.evl - --kind classifier --text body --label queue \
    --classes billing,login,shipping --set n_topics=3 < mails.jsonl
mails 151 180 | sed 's/"queue": "[a-z]*", //' | everlearn predict queues.evl - > answers.jsonl
head -n 3 answers.jsonl
right=0
i=151
while read -r answer; do
    case $answer in *"\"label\": \"$(queue "$i")\""*) right=$((right + 1)) ;; esac
    i=$((i + 1))
done < answers.jsonl
echo "$right of 30 mails are in the right queue"
test "$right" -ge 27
