#!/bin/sh
# Starts `tiller serve` with the token of a mounted secret. tiller refuses a token file that is a link
# or that other users can read, and mounted secrets are one or the other. So the token is copied.
#
#     serve.sh SECRET [OPTION of tiller serve…]
set -eu
umask 077
cat "$1" > /run/tiller/serve-token
shift
exec tiller serve --token-file /run/tiller/serve-token "$@"
