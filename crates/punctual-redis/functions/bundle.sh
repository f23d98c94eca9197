#!/bin/sh
# Prints the library as one file: bundle.sh | redis-cli -x FUNCTION LOAD REPLACE
# With `test`: the library under its test name, whose clock can be moved.
cd "$(dirname "$0")" || exit 1
# For each of CONSTANTS: `%NAME%` is its value, and `%FLAGS has NAME%` the test of that bit.
# Lines without a `%` are left as they are, which most are.
constants() {
  printf '/%%/!b\n'
  sed 's/\\/\\\\/g' CONSTANTS | sed -n 's/^\([A-Z_]*\) = \(.*\) -- .*/s~%\1%~\2~g; s~%\\([a-z_.]*\\) has \1%~floor(\\1 \/ \2) % 2 == 1~g/p'
  printf '%s\n' 's~floor(\([a-z_.]*\) / 1) % 2~\1 % 2~g'
}
library() {
  cat $(cat ORDER) | sed "$(constants)"
}
if [ "$1" = test ]; then
  printf "#!lua name=punctual_test\nlocal PREFIX = 'punctual_test_'\n"
  library | sed 's/--TEST //; s/--SMALL //'
else
  printf "#!lua name=punctual_1\nlocal PREFIX = 'punctual_1_'\n"
  library
fi
