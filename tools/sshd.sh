#!/bin/sh
# Starts the OpenSSH server that is unpacked beside this script (../unpacked), as an image that brings one would: with a
# host key, with the PATH it was started with for every session, and with the user who starts it allowed in by key.
# All arguments are sshd's own, for example: sshd -D -p 2222 -o AuthorizedKeysFile=/etc/keys/authorized_keys
# Under the name ssh or ssh-keygen it is that program, for machines that have none.
set -eu
root=$(dirname "$(dirname "$(readlink -f "$0")")")/unpacked
server=$root/usr/sbin/sshd
libraries=$(echo "$root"/usr/lib/*-linux-*)

LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
case $(basename "$0") in ssh | ssh-keygen) exec "$root/usr/bin/$(basename "$0")" "$@" ;; esac
[ "${1-}" != -V ] || exec "$server" -V

# sshd looks up who may log in, and as root the user it gives its rights away to. Neither need be known on this machine,
# and the home should be the one this process has: so it is shown a user list of our own.
own=$(mktemp -d)
user=$(id -un 2>/dev/null || echo user)
echo "$user:x:$(id -u):$(id -g)::$HOME:/bin/sh" >"$own/passwd"
echo "sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin" >>"$own/passwd"
printf '%s:x:%s:\nnogroup:x:65534:\n' "$user" "$(id -g)" >"$own/group"
export LD_PRELOAD="$libraries/libnss_wrapper.so" NSS_WRAPPER_PASSWD="$own/passwd" NSS_WRAPPER_GROUP="$own/group"
PATH=$PATH:$root/usr/bin ssh-keygen -q -t ed25519 -N '' -f "$own/host_key"
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd

# Keys that are meant for an image's root count for whoever plays that part here. What the arguments say comes first.
exec "$server" -f none -h "$own/host_key" -o UsePAM=no -o StrictModes=no -o PidFile=none -o "SetEnv=PATH=$PATH" "$@" \
    -o "AuthorizedKeysFile=.ssh/authorized_keys /root/.ssh/authorized_keys"
