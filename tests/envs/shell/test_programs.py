"""Programs of a shell, of awk and of sed do what they do in bash with the GNU tools."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.bash import check, gnu

pytestmark = pytest.mark.skipif(not gnu(), reason="needs bash and the GNU tools")

SYNTAX = r"""
for f in *.txt; do echo "$f"; done
for i in 1 2 3; do echo $i; done | tail -1
for i in {1..3}; do echo -n "$i "; done
x=5; echo $x $((x*2)) ${x}
echo $(wc -l < a.txt) lines
echo "total: $(cat a.txt | wc -l)"
echo `basename d/b.csv`
if [ -f a.txt ]; then echo yes; else echo no; fi
if grep -q nothing a.txt; then echo y; elif [ -d d ]; then echo d; fi
while read -r l; do echo "<$l>"; done < a.txt
cat d/b.csv | while IFS=, read a b c; do echo $b $a; done
i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done
n=0; for f in d/*; do n=$((n + 1)); done; echo $n
find d -type f | sort | xargs -I{} basename {}
find d -type f | sort | xargs -n 1 echo file
ls | xargs -I X echo X.bak
(cd d; ls); pwd
{ echo a; echo b; } | wc -l
! grep -q x a.txt; echo $?
test -d d && echo folder
[ "a" = "b" ] || echo differ
[ 3 -gt 2 -a 1 -lt 2 ] && echo both
mkdir -p q/{x,y} && ls q
echo {a,b}{1,2} a{b}c {1..4} {c..a} {x}
echo "${HOME##*/}" ${USER%er}; f=a.b.c; echo ${f%.*} ${f%%.*} ${f#*.} ${#f} ${f/./-} ${f//./-}
for f in d/*.csv; do mv "$f" "${f%.csv}.tsv"; done; ls d
cat <<< "hello world" | wc -w
echo $'a\tb'
printf '%s-%s\n' a b c; printf '%d\n' 42; printf "%.2f\n" 3.14159; printf 'x\n'
seq 3; seq 2 4; seq -s, 1 3; seq 5 -2 1
echo a b | tee new | wc -w; cat new
md5sum a.txt | cut -d' ' -f1; md5sum < b.txt
nl a.txt; nl -ba a.txt | tail -1
paste a.txt b.txt; paste -sd, a.txt; paste -d: b.txt a.txt
stat -c '%n %s' a.txt; stat --format=%s b.txt d/b.csv
sort a.txt > s1; sort b.txt > s2; comm s1 s2; comm -12 s1 s2; comm -23 s1 s2
true && echo t; false || echo f
find . -type f \( -name '*.txt' -o -name '*.csv' \) | sort
find . -path './d/*' -type f
find . -type f -size +20c; find . -type f -size -1k; find d -type f -size 1k
find . -type f -printf '%f %s\n' | sort
find d -type f -printf '%p|%P|%h|%d|%y\n' | sort
find . -name d -prune -o -type f -print | sort
find . -type d -name d -exec sh -c 'echo found {}' \;
find d -type f -exec sh -c 'echo "$1"' _ {} \; | sort
sh -c 'echo hi; exit 3'; echo $?
for f in a.txt nothing; do cat $f || continue; done 2>/dev/null
for i in 1 2 3; do if [ $i = 2 ]; then break; fi; echo $i; done
x=$(cat a.txt); echo "$x"; echo $x
X=1 Y=2; echo $X$Y; X=3 echo $X
for x in $(cut -d, -f1 d/b.csv); do echo "$x!"; done
cat a.txt | xargs; cat a.txt | xargs -n 2
echo "a 'b c' d" | xargs -n1 echo
find . -name nothing | xargs ls | head -1
find . -name nothing | xargs -r ls
while true; do echo once; break; done
until false; do echo u; break; done
if ! [ -e zz ]; then echo missing; fi
echo $((7/2)) $((-7/2)) $((7%3)) $(( (1+2)*3 )) $((3>2))
cd d && echo $(pwd | wc -c) > /dev/null; ls e
[ -z "" ] && [ -n x ] && echo ok
[ -s z.tmp ] || echo empty
echo "a$(echo "b$(echo c)")"
ls d | while read f; do echo "f:$f"; done; echo "${f:-none}"
sort b.txt | comm -13 - <(sort a.txt)
echo a | { read x; echo "$x$x"; }
egrep 'three|four' a.txt | wc -l
[ a.txt ] && echo t; [ ] || echo f
test 5 -ge 3; echo $?
find d -name '*.csv' -exec cp {} {}.bak \; -exec ls {} \; ; ls d
find . -type f -not -path './d/*' | sort
find d ! \( -name '*.csv' -o -type d \) | sort
echo x | cat - a.txt - | wc -l
echo *; echo "*"; x='*.txt'; echo $x "$x"
"""
TEXT = r"""
sed 's/\([a-z]*\) \([a-z]*\)/\2 \1/' a.txt
sed -E 's/([a-z]+),([a-z]+)/\2;\1/' d/b.csv
sed -n '/three/,$p' a.txt
sed '1d;3d' a.txt
sed -e 's/e/E/' -e 's/o/O/g' a.txt
sed '2,/three/s/t/T/' a.txt
sed '/one/,/four/d' a.txt
sed 's/e/X/2' a.txt
sed 's/e/X/2g' a.txt
sed '1i top' a.txt
sed '$a end' a.txt b.txt
sed '2c new' a.txt
sed 2q a.txt
sed -n '$=' a.txt
sed '/^$/d' a.txt
sed 'y/abc/xyz/' d/b.csv
sed '1!d' a.txt
sed 's|/|-|g;s/a/b/' d/b.csv
sed -i -e '1d' -e 's/t/T/' a.txt; cat a.txt
sed 's/[^,]*$//' d/b.csv
sed -n 's/^\(..\).*,\([0-9]*\)$/\1\2/p' d/b.csv
sed -E 's/(a|b)+/<&>/g' d/b.csv
sed -E 's/([0-9]{1,2}):([0-9]{2})/\2h\1/' logs/x.log
sed 's/\bt/T/g' a.txt
sed -E 's/^(.*),(.*),(.*)$/\3,\2,\1/' d/b.csv
sed 's/x*/-/g' b.txt
sed '1a\more' b.txt
sed p b.txt
sed -n '1p;$p' a.txt b.txt
sed '2,1s/^/>/' a.txt
sed -E 's/(x)?(h)/[\1\2]/' a.txt
grep -E '[0-9]{3}' d/b.csv
grep -E '^.{4,5}$' a.txt
grep '[0-9]\{2,\}' d/b.csv
grep -oE '[a-z]{2,3}' d/b.csv
grep '\bf' a.txt
grep '\<t' a.txt
grep 'e\>' a.txt
grep -oE '(ro|ky)[a-z]*' d/b.csv
grep -E '(a|b){2}n' d/b.csv || echo none
grep -oE 'e{0,1}r' a.txt
sort -k2,2 -k1,1r a.txt
sort -t, -k2,2 -k3,3n d/b.csv
sort -t, -k2,2r -k3nr d/b.csv
sort -rnk3 -t, d/b.csv
sort -V a.txt
printf '1K\n2M\n10\n1G\n' | sort -h
printf '1K\n2M\n10\n1G\n' | sort -hr
sort --unique a.txt
sort -o new a.txt; cat new
sort -s -k 2 a.txt
uniq -i a.txt; sort a.txt | uniq -D; sort a.txt | uniq -w 2; uniq -f 1 a.txt
md5sum a.txt a.txt | uniq -w32 -D | wc -l
tr -cd 'a-e\n' < a.txt; echo; tr -c 'a-z' '_' < a.txt; echo
tr -cs 'a-z' '\n' < a.txt; tr -ds a-c e < a.txt; tr -s 'a-z' 'A-Z' < a.txt
tr -d '[:space:]' < a.txt; echo; tr '[:lower:]' '[:upper:]' < a.txt
head -c 5 a.txt; echo; tail -c 4 a.txt; head -n -2 a.txt; tail -n -1 a.txt; head -c5 d/b.csv
cut -b 1-3 a.txt; cut -d, -s -f2 a.txt d/b.csv
ls | xargs -i echo got {}
find . -size -1k -type f; find . -size +20c -type f | sort
echo "a.b.c" | sed 's/\./-/2'
echo abcabc | sed -E 's/(a(b)c)/[\2\1]/g'
echo "foo123bar" | sed -E 's/[a-z]+([0-9]+)[a-z]+/\1/'
echo "aaa" | sed -E 's/(a*)(a*)/\1-\2/'
echo "aXbXc" | sed 's/\(.*\)X\(.*\)/\2\1/'
sed -n '2,3!p' a.txt
sed --expression='s/a/b/' a.txt 2>/dev/null || echo no
sed = a.txt | head -4
sed '/three/!s/e/E/g' a.txt
sed '$!d' a.txt
sed 's/a/b/;;s/b/c/' d/b.csv
"""
OPTIONS = r"""
grep -x three a.txt
grep -m 1 e a.txt d/b.csv
grep -A 1 two a.txt; grep -B1 four a.txt; grep -n -C1 three a.txt
grep -A1 -h rome d/b.csv; grep -rn -A1 ERROR d logs | sort
grep -L three a.txt b.txt; echo $?
grep -L x a.txt; echo $?
grep -r --include='*.log' ERROR . | sort
grep -r --exclude='*.log' -l rome . | sort
grep -e one -e four a.txt; grep -c -e one -e t a.txt; grep -oe e -e t a.txt
grep -v -x three a.txt
grep -E 'one|four' -o a.txt
grep -wo t a.txt || echo no
ls -r; ls -rd *.txt; ls -S a.txt b.txt z.tmp d/b.csv; ls -Sr a.txt b.txt; ls -p
echo -e 'a\tb\nc'; echo -ne 'x\n'; echo -n -e 'y\n'; echo -E 'a\tb'; echo -x
cp -p a.txt q && cat q
printf '%s\n' *.txt; printf '%5s|%-5s|\n' ab cd; printf '%03d\n' 7 8
printf 'no newline'; printf '%s %s\n' a; printf '%%\n'; printf '%x %o %c\n' 255 8 abc
grep -in 'THREE' a.txt --count
grep -c '' a.txt
grep -- -1 b.txt
tail +2 d/b.csv
printf '* a\n*b\nc\n' > m; grep '^*' m; sed 's/^*/-/' m; grep '\(^*b\)' m; grep '^.*b' m
cat /dev/null > a.txt; wc -c a.txt; grep e b.txt /dev/null; wc -l < /dev/null
"""
FILES_OF_COMMANDS = r"""
comm -12 <(sort a.txt) <(sort b.txt)
sort b.txt | comm -13 - <(sort a.txt)
diff a.txt a.txt && echo same
diff a.txt b.txt
diff <(echo a; echo b; echo c) <(echo a; echo x; echo c; echo d)
diff -q a.txt b.txt; echo $?
diff a.txt nothing 2>/dev/null; echo $?
cp -r d e2; echo new > e2/n; echo x >> e2/b.csv; diff -r d e2; diff -qr d e2; diff d e2
diff -s a.txt a.txt
printf 'a\nb\nc\nd\n' > p; printf 'b\nc\ne\nd\nf\n' > q; diff p q; diff q p
printf 'a\nb' > p; printf 'a\nb\n' > q; diff p q
wc -l <(cat a.txt) > /dev/null; echo ok
cat <(echo x) a.txt <(echo y)
paste <(cut -d, -f1 d/b.csv) <(cut -d, -f3 d/b.csv)
while read -r x; do echo "[$x]"; done < <(cut -d, -f1 d/b.csv)
cat a.txt | diff - a.txt && echo eq
ls | xargs -i% echo %
echo d/b.csv | xargs -I{} sh -c 'wc -l < {}'
for f in $(find . -name '*.csv'); do n=$(wc -l < $f); echo "$f has $n"; done
"""
AWK = r"""
awk '{print $2}' a.txt
awk '{print $1, $NF}' a.txt
awk -F, '{print $1}' d/b.csv
awk -F , '$3 > 10 {print $1 "-" $3}' d/b.csv
awk -F, '{s+=$3} END {print s}' d/b.csv
awk -F, '{s+=$3} END {print s/NR}' d/b.csv
awk -F',' '{c[$2]++} END {for (k in c) print k, c[k]}' d/b.csv | sort
awk 'NR==2' a.txt
awk 'NR>1 && NF' a.txt
awk '/three/' a.txt
awk '/three/{print NR": "$0}' a.txt
awk '!seen[$0]++' a.txt
awk 'END{print NR}' a.txt b.txt
awk 'BEGIN{for(i=1;i<=3;i++) printf "%d ", i; print ""}'
awk '{ if ($1 == "three") print "yes"; else print "no" }' a.txt
awk '{print length($0), toupper($1), substr($1,2,2)}' a.txt
awk -F: '{print $2}' logs/x.log
awk '$2 ~ /^E/ {print $3}' d/e/c.log
awk '$2 !~ "E" {print $3}' d/e/c.log
awk '{n=split($0,a," "); print n, a[1]}' a.txt
awk '{gsub(/e/,"E"); print}' a.txt
awk '{sub("t","[&]"); print}' a.txt
awk 'BEGIN{print 1/3, 2^10, 7%3, -3, 1e6, 0.1+0.2}'
awk -v x=3 'BEGIN{print x+1}'
awk '{$2="X"; print}' a.txt
awk -F, -v OFS=: '{$1=$1}1' d/b.csv
awk -F, 'max<$3{max=$3; n=$1} END{print n, max}' d/b.csv
awk 'BEGIN{printf "%5.2f|%-5s|%05d|%s\n", 3.14159, "ab", 42, "x"}'
awk 'FNR==1{print $0}' a.txt d/b.csv
awk '{print NF ? $(NF) : "none"}' a.txt
awk '{a[NR]=$0} END{for(i=NR;i>0;i--) print a[i]}' a.txt
awk '{while (i<NR) {i++; print i}}' a.txt
awk 'length > 5' a.txt
awk '{t = t $1} END {print t}' a.txt
awk -F'[ ,]' '{print $2}' d/b.csv a.txt
cat a.txt | awk '{print NR, $0}' | head -2
awk 'BEGIN{x["a"]; if ("a" in x) print "in"; delete x["a"]; print ("a" in x)}'
awk '{exit} END {print "end"}' a.txt
awk 'BEGIN{exit 3}'; echo $?
awk '$1=="three"||$1=="one"{c++}END{print c+0}' a.txt
awk '{print $1+0}' b.txt
awk 'NR%2==0{print;next}{print "-"}' a.txt
awk -F"\t" '{print $1}' a.txt
awk 'BEGIN { print index("hello","l"), tolower("AB"), int(3.9) }'
awk 'BEGIN { print match("foobar","o+"), RSTART, RLENGTH }'
awk '{ print (NR > 1) ? "b" : "a" }' a.txt
awk '{ $NF=""; print $0 }' a.txt
awk '{ print -$1 }' b.txt
awk '{ print $1 * 2 " x" }' b.txt
awk '{ x = x > $1 ? x : $1 } END { print x }' b.txt
awk 'BEGIN { a="10"; b=9; print (a<b), ("10"<"9"), (10<9) }'
awk '{ sum[$1] += $2; n++ } END { print n, sum["10"] }' b.txt
awk 'NF{c++}END{print c}' a.txt
awk '{ for (i=1;i<=NF;i++) w[$i]++ } END { for (k in w) print w[k], k }' a.txt | sort -rn
"""
WITH_BREAKS = (
    'for f in *.txt\ndo\n  wc -l "$f"\ndone',
    "if [ -d d ]\nthen echo yes # a folder\nfi",
    "sed 's/,/\\\n/g' d/b.csv",
    "grep 'one\nfour' a.txt",
    "awk '{\n  n++ # count\n}\nEND { print n }' a.txt",
    "cat a.txt |\n  sort |\n  uniq -c",
    "x=1 &&\n echo $x",
    "find . -name '*.csv' \\\n  -exec basename {} \\;",
)
ALL = [
    line
    for group in (SYNTAX, TEXT, OPTIONS, FILES_OF_COMMANDS, AWK)
    for line in group.strip().split("\n")
]


@pytest.mark.parametrize("line", [*ALL, *WITH_BREAKS])
def test_programs(line: str):
    check(line)


SOURCES = (
    *(
        "cat a.txt",
        "cat d/b.csv logs/x.log",
        "ls d",
        "grep -h e d/b.csv d/e/c.log",
        "seq 3",
        "printf '%s\\n' *.txt",
    ),
    *("sed -n '2,3p' a.txt", "cat nothing", "echo 'one  two'", "awk -F, '{print $2, $1}' d/b.csv"),
    *("find d -type f -size -1k", "grep -c three a.txt z.tmp", "sort -t, -k2,2 -k3,3nr d/b.csv"),
)
FILTERS = (
    *(
        "sort -u",
        "sort -k2,2 -k1,1r",
        "uniq -c",
        "awk '{print $NF}'",
        "awk 'NR > 1 {print NR, $1}'",
    ),
    *("sed -E 's/([a-z]+)[ ,]([a-z]+)/\\2-\\1/'", "sed '1d;s/e/E/2g'", "grep -n -A 1 three"),
    *("tr -cs 'a-z\\n' '_'", "cut -d, -f2-", "xargs -n 2", "xargs -I{} echo '<{}>'", "tee new"),
    *(
        "awk '{s += $1} END {print s + 0, NR}'",
        "awk -F, '{c[$1]++} END {for (k in c) print k}' | sort",
    ),
    *('while read -r a b; do echo "$b:$a"; done', "nl -b a", "paste -sd, -", "grep -vE 'e{1,2}$'"),
    *("head -n -1", "tail -c 5", "uniq -w 2 -D", "awk '!seen[$1]++'", "sed '$!d'", "wc -w"),
)
FRAMES = (
    *("{}", 'echo "$({})"', "echo $({})", 'x=$({}); echo "$x" | wc -l', "({}) | wc -l"),
    *('for x in $({}); do echo "<$x>"; done', "if {} > o; then echo y; else echo n; fi"),
    *("{{ {}; echo end; }} > o; cat o", "! {}; echo $?", "diff <({}) a.txt", "{} || echo failed"),
    *("cat <({}) z.tmp; true", "until {}; do break; done", "n=0; {} && n=$((n + 1)); echo $n"),
    *("cd d && ({}); pwd", 'y=`{}`; echo "${{#y}} ${{y%%o*}} ${{y#*e}}"', "sh -c '{}' | grep -c ."),
)
pipelines = st.builds(
    lambda source, filters: " | ".join([f"{source} 2>/dev/null", *filters]),
    st.sampled_from(SOURCES),
    st.lists(st.sampled_from(FILTERS), max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FRAMES), pipelines)
def test_pipelines_in_programs(frame: str, line: str):
    if "sh -c" in frame and "'" in line:
        line = line.split(" | ")[0].replace("'", "")
    check(frame.format(line))
