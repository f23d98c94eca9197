#!/bin/sh
# Prints the library as one file: bundle.sh | redis-cli -x FUNCTION LOAD REPLACE
# With `test`: the library under its test name, whose clock can be moved.
cd "$(dirname "$0")" || exit 1
if [ "$1" = test ]; then
  printf "#!lua name=punctual_test\nlocal PREFIX = 'punctual_test_'\n"
  cat $(cat ORDER) | sed 's/--TEST //; s/--SMALL //'
else
  printf "#!lua name=punctual_1\nlocal PREFIX = 'punctual_1_'\n"
  cat $(cat ORDER)
fi
