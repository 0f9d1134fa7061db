#!/bin/sh
# Runs a command line in the pod that a host name stands for. mpirun calls it where it would call ssh:
#
#     kubexec.sh [-x] [-o VALUE] HOST WORD...
#
# Input, output, errors and the exit code are those of the command; 255 when there was nowhere to run it. Needs sh,
# mkfifo and a kubectl that may exec into the pod. The same script serves clusters, with the real kubectl, and the local
# home, with a stand-in for it.
#
# Closing an exec ends nothing in the pod. So the command runs there under a watch that reads from here, line by line:
# input as octal numbers, a dot at its end, an empty line now and then so that nobody takes a quiet run for a dead one.
# The watch ends the command, and everything it has started, when there is no more to read: because this script was
# killed, because kubectl was, because the connection is gone.

kubectl=${TRAINWRIGHT_KUBECTL:-/opt/kube/kubectl}
beat=${TRAINWRIGHT_BEAT_SECONDS:-30}

fail() {
    echo "kubexec: $1" >&2
    exit 255
}

while [ $# -gt 0 ]; do
    case $1 in
        -o) shift ;;
        -*) ;;
        *) break ;;
    esac
    [ $# -eq 0 ] || shift
done
[ $# -ge 2 ] || fail "expected a host and a command: kubexec.sh HOST WORD..."
pod=${1%%.*}
shift
# Joined with blanks and read by a shell, as ssh does it: words come with quotes of their own, or as whole scripts.
command=$*

read -r here </proc/sys/kernel/hostname
[ "$pod" != "${here%%.*}" ] || exec sh -c "$command"
[ -x "$kubectl" ] || fail "there is no kubectl at $kubectl; only the launcher of a job has one"

# Ends what this shell has started and what is of its session; not itself, nor the process $self. Whatever it knows it
# reads from /proc, because sh and kill may be all there is.
# shellcheck disable=SC2016
end_all='
end_all() {
    while
        # All are found before the first is killed: a child whose parent has gone could not be told from others.
        ours=" $$ " before=
        while [ "$ours" != "$before" ]; do
            before=$ours
            for file in /proc/[0-9]*/stat; do
                { read -r line <"$file"; } 2>/dev/null || continue
                id=${line%% *}
                set -- ${line##*) } # state, parent, group, session
                [ "$1" != Z ] || continue
                case $ours in *" $id "*) continue ;; *" $2 "*) ;; *) [ "$4" = "$$" ] || continue ;; esac
                ours="$ours$id "
            done
        done
        found=
        for id in $ours; do
            [ "$id" = "$$" ] || [ "$id" = "$self" ] || ! kill -9 "$id" 2>/dev/null || found=yes
        done
        [ "$found" ]
    do :; done
}
self=
'

# Runs in the pod, with the command line as $1.
# shellcheck disable=SC2016
watch="$end_all"'
exec 3>&2 2>/dev/null # some shells tell of everything that is killed
{
    trap "" PIPE
    read -r self line </proc/self/stat
    while read -r line; do
        case $line in
            .) exec >/dev/null ;;
            ?*) printf "$line" ;;
        esac
    done
    end_all
} | {
    read -r self line </proc/self/stat
    sh -c "$1" 2>&3 3>&-
    code=$?
    end_all
    exit "$code"
}
code=$?
end_all
exit "$code"
'

# A pipe whose only writer is this process: kubectl reads its end as soon as this script has ended, however it has.
number=0
until mkfifo -m 600 "${pipe:=${TMPDIR:-/tmp}/kubexec-$here-$$}" 2>/dev/null; do
    number=$((number + 1))
    [ "$number" -lt 20 ] || fail "cannot make a pipe in ${TMPDIR:-/tmp}"
    pipe=${TMPDIR:-/tmp}/kubexec-$here-$$-$number
done
[ -e /proc/self/fd/0 ] || exec </dev/null
exec 5<&0 3<>"$pipe" 4<"$pipe"
rm "$pipe"

# The helpers open the pipe for each line anew, so that they do not keep it open when this script is no more.
say() {
    { printf '%s\n' "$1" >"/proc/$$/fd/3"; } 2>/dev/null
}

feed() {
    ! command -v od || od -An -v -to1 | while read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        IFS='\'
        say "\\$*" || exit
        unset IFS
    done
    say .
}

keep_awake() {
    while sleep "$beat" && say ''; do :; done
}

# Only the account of this pod counts: an image or a machine may bring the credentials of somebody else.
export KUBECONFIG=/dev/null
"$kubectl" exec -i "$pod" -- sh -c "$watch" kubexec "$command" <&4 3>&- 4<&- 5<&- &
stream=$!
{
    exec <&5 >/dev/null 2>&1 3>&- 4<&- 5<&-
    feed
} &
{
    exec </dev/null >/dev/null 2>&1 3>&- 4<&- 5<&-
    keep_awake
} &
exec 4<&- 5<&-
eval "$end_all"
trap 'exec 2>/dev/null 3>&-; wait "$stream"; end_all; exit 143' TERM INT HUP

wait "$stream"
code=$?
exec 4>&2 2>/dev/null # some shells tell of everything that is killed
end_all
exec 2>&4
if [ "$code" -eq 1 ]; then
    # The command's own code, or kubectl's for everything that goes wrong.
    phase=$("$kubectl" get pod "$pod" -o 'jsonpath={.status.phase}' </dev/null 2>/dev/null 3>&-)
    [ "$phase" = Running ] || fail "pod $pod is not running${phase:+ but $phase}; nothing can be started in it"
fi
exit "$code"
