#!/bin/sh
# Prints the library as one file: bundle.sh | redis-cli -x FUNCTION LOAD REPLACE
# With `test`: the library under its test name, whose clock can be moved.
cd "$(dirname "$0")" || exit 1
if [ "$1" = test ]; then
  { echo '#!lua name=punctual_test'; cat $(cat ORDER); } | sed 's/--TEST //; s/punctual_1_/punctual_test_/g'
else
  { echo '#!lua name=punctual_1'; cat $(cat ORDER); }
fi
