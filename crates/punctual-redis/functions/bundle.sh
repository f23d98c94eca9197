#!/bin/sh
# Prints the library as one file: bundle.sh | redis-cli -x FUNCTION LOAD REPLACE
# With `test`: the library under its test name, whose clock can be moved.
cd "$(dirname "$0")" || exit 1
# The files in their order, the numbers of CONSTANTS in place of their names.
library() {
  cat $(cat ORDER) | sed "$(sed -n 's/^\([A-Z_]*\) = \(.*\) -- .*/s~%\1%~\2~g/p' CONSTANTS)"
}
if [ "$1" = test ]; then
  printf "#!lua name=punctual_test\nlocal PREFIX = 'punctual_test_'\n"
  library | sed 's/--TEST //; s/--SMALL //'
else
  printf "#!lua name=punctual_1\nlocal PREFIX = 'punctual_1_'\n"
  library
fi
