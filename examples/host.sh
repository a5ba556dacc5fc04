#!/usr/bin/env bash
# A host in bash and jq: sends one prompt to tiller, prints the answer as it arrives, and runs the
# tool `depth` for the model. docs/hosts/shell.md explains it.
#
#     host.sh MESSAGE [ARGUMENT of tiller…]       the default is: --model tiller/demo --no-session
#
# TILLER_BIN names the program, HOST_MAX_TURNS limits the requests to the model (default 20), and
# HOST_RESPONSE_SECONDS the wait for each response (default 30).
# Exit codes: 0 done, 1 the prompt failed, 2 wrong usage, 3 a limit was reached, 4 tiller failed,
# 130 aborted.
# shellcheck disable=SC2016,SC2317 # jq's variables are in single quotes; a trap calls stop
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: host.sh MESSAGE [ARGUMENT of tiller…]" >&2; exit 2; }
message=$1 max_turns=${HOST_MAX_TURNS:-20} response_seconds=${HOST_RESPONSE_SECONDS:-30}
shift
[ $# -ge 1 ] || set -- --model tiller/demo --no-session

# Turns each record into one line: a kind, then its fields, separated by tabs. @tsv writes line
# breaks, tabs and backslashes as \n, \t and \\, which `printf %b` reads. Only the last field of a
# line may be empty. Records that the host does not know become nothing.
records_to_lines='
  . as $line | (try fromjson catch null) as $r
  | if ($r | type) != "object" then ["junk", $line[:200]]
    elif $r.type == "response" and $r.success then ["accepted", $r.command]
    elif $r.type == "response" then ["refused", $r.command, $r.error]
    elif $r.type == "message_update" then $r.assistantMessageEvent
      | if .type == "text_delta" then ["text", .delta]
        elif .type == "text_end" then ["text_end"] else empty end
    elif $r.type == "tool_execution_start" then ["tool", $r.toolName, ($r.args | tojson)]
    elif $r.type == "host_tool_call" then ["call", $r.id, $r.toolName, ($r.arguments | tojson)]
    elif $r.type == "extension_ui_request" then ["dialog", $r.id]
    elif $r.type == "compaction_start" then ["compaction"]
    elif $r.type == "prompt_result" and $r.id == "prompt" then
      ["result", $r.status, $r.turns, $r.usage.totalTokens, $r.reason // $r.error // ""]
    else empty end
  | @tsv'

dir=$(mktemp -d)
mkfifo "$dir/stdin" "$dir/stdout"
# jq starts before the write end of stdin is open. If jq inherited it, tiller would never see EOF.
# It ignores Ctrl-C, because the last records are still to be read then.
exec {lines}< <(trap '' INT TERM; exec jq --unbuffered -Rr "$records_to_lines" <"$dir/stdout")
# A process substitution and not a job, because bash writes to stderr when a job is killed.
: > >(exec "${TILLER_BIN:-tiller}" --mode rpc --wire pi-delta "$@" \
    <"$dir/stdin" >"$dir/stdout" 2>"$dir/stderr")
server=$!
exec {commands}>"$dir/stdin"

# Ends tiller if it still runs: EOF, then SIGTERM, and SIGKILL after five seconds.
stop() {
    exec {commands}>&-
    kill "$server" 2>/dev/null || true
    for _ in {1..50}; do
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$server" 2>/dev/null || true
    rm -r "$dir"
}
trap stop EXIT
# A write to a dead tiller must not end this script. The end of its records is noticed below.
trap '' PIPE
# The first signal aborts the run, the second ends this script.
trap 'trap "exit 130" INT TERM; send abort {}' INT TERM

fail() { echo "host: $1" >&2; exit 4; }
no_response() { fail "tiller has not answered $1 within $response_seconds s"; }

# send TYPE FIELDS [OPTION of jq…]: writes one command. Its id is its type, unless FIELDS has one.
send() {
    local line code=0
    line=$(jq -cn --arg type "$1" "${@:3}" "{id: \$type, type: \$type} + ($2)")
    # A long line does not fit into the pipe if tiller does not read.
    timeout "$response_seconds" cat <<<"$line" 1>&"$commands" 2>/dev/null || code=$?
    [ "$code" != 124 ] || no_response "$1"
}

# request TYPE FIELDS [OPTION of jq…]: sends a command whose response must come in time.
request() {
    awaited=$1 deadline=$((SECONDS + response_seconds))
    send "$@"
}

# Reads the next line of jq into kind, a, b, c and d. Fails at the end of tiller's records.
next_line() {
    local left
    while [ -n "$awaited" ]; do
        left=$((deadline - SECONDS))
        [ "$left" -gt 0 ] || no_response "$awaited"
        IFS=$'\t' read -r -t "$left" -u "$lines" kind a b c d && return
        # The exit code is greater than 128 if the time is over.
        [ $? -gt 128 ] || return
    done
    IFS=$'\t' read -r -u "$lines" kind a b c d
}

# depth ID ARGUMENTS: the host's own tool. A failure is a result, too: the model reads it.
depth() {
    send host_tool_result '
      {"Port Isaac": "4 m", "Fowey": "12 m"}[$arguments.harbour] as $depth
      | {$id, isError: ($depth == null), result: {content: [
          {type: "text", text: ($depth // "unknown harbour: \($arguments.harbour)")}]}}' \
        --arg id "$1" --argjson arguments "$2"
}

request hello '{client: "host.sh", promptResults: true}'
in_text=false
status=
while [ -z "$status" ] && next_line; do
    case "$kind $a" in
        "accepted hello") request set_host_tools '{tools: [{name: "depth",
            description: "Looks up the depth of a harbour",
            parameters: {type: "object", required: ["harbour"],
                properties: {harbour: {type: "string"}}}}]}' ;;
        "accepted set_host_tools")
            request set_limits '{$maxTurns}' --argjson maxTurns "$max_turns" ;;
        "accepted set_limits") request prompt '{$message}' --arg message "$message" ;;
        # The run follows, which has no limit. A compaction before it has none either.
        "accepted prompt" | "compaction "*) awaited= ;;
        "refused "*) fail "tiller refused $a: $(printf '%b' "$b")" ;;
        "junk "*) fail "tiller wrote a line that is not a record: $(printf '%b' "$a")" ;;
        "text "*) printf '%b' "$a"; in_text=true ;;
        "text_end "*) echo; in_text=false ;;
        "tool "*) printf '[%s %b]\n' "$a" "$b" ;;
        "call "*) depth "$a" "$(printf '%b' "$c")" ;;
        # There is no user to ask. tiller ignores this line if the request needs no answer.
        "dialog "*) send extension_ui_response '{$id, cancelled: true}' --arg id "$a" ;;
        "result "*) status=$a turns=$b tokens=$c reason=$(printf '%b' "$d") ;;
    esac
done
! $in_text || echo
exec {commands}>&-
# tiller has seen EOF: it writes its last records and ends.
while read -r -t 5 -u "$lines" _; do :; done
if [ -z "$status" ]; then
    code=0
    wait "$server" || code=$?
    fail "tiller ended early (exit code $code): $(tail -n 1 "$dir/stderr")"
fi
echo "[$status${reason:+: $reason}; $turns turns, $tokens tokens]" >&2
case $status in
    done | handled) exit 0 ;;
    limit) exit 3 ;;
    aborted) exit 130 ;;
    *) exit 1 ;;
esac
