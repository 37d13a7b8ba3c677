#!/bin/sh
# Back up the database, restore the copy into a scratch database, and verify it there. Fails with what went wrong, and then keeps
# every older copy. Needs pg_dump, pg_restore, psql (of the server's version or newer) and holdkit.
#
#   HOLDKIT_URL         the database: postgresql://holdkit@postgres/holdkit; its password is in PGPASSWORD or PGPASSFILE
#   HOLDKIT_BACKUPS     the directory of the copies, /backups by default
#   HOLDKIT_KEEP        how many copies are kept, 14 by default
#
# The role may create databases (createdb), and needs room for a second copy of the data while the job runs.
# `backup.sh daily` runs the job every day, and again after an hour if it failed. `backup.sh check` fails if the last copy that was
# verified is older than 26 hours: a container's health check.
set -eu
umask 077

backups=${HOLDKIT_BACKUPS:-/backups}
keep=${HOLDKIT_KEEP:-14}
scratch=holdkit_backup_check

case ${1:-} in
check)
    test -n "$(find "$backups" -maxdepth 1 -name 'holdkit-*.dump' -mmin -1560)" || {
        echo "backup: no verified copy of the last 26 hours in $backups" >&2
        exit 1
    }
    exit 0
    ;;
daily)
    pause_id=
    trap 'test -z "$pause_id" || kill "$pause_id"; exit 0' TERM INT
    while :; do
        pause=86400
        "$0" || pause=3600
        sleep "$pause" &
        pause_id=$!
        wait "$pause_id"
        pause_id=
    done
    ;;
esac

# The same server and role with another database: the URL without its path. Parameters after the question mark stay.
base=${HOLDKIT_URL%%\?*}
parameters=${HOLDKIT_URL#"$base"}
scratch_url="${base%/*}/$scratch$parameters"

step='connect to the database'
part="$backups/.unfinished.dump"
finish() {
    code=$?
    psql --quiet --dbname="$HOLDKIT_URL" --command="drop database if exists $scratch with (force)" || code=1
    rm -f "$part"
    [ "$code" -eq 0 ] || echo "backup FAILED: could not $step; older copies in $backups are kept" >&2
    exit "$code"
}
trap finish EXIT

psql --quiet --dbname="$HOLDKIT_URL" --command="drop database if exists $scratch with (force)"
step='copy the database'
pg_dump --format=custom --no-owner --file="$part" --dbname="$HOLDKIT_URL"
step='create the scratch database'
psql --quiet --dbname="$HOLDKIT_URL" --command="create database $scratch template template0"
step='restore the copy'
pg_restore --exit-on-error --no-owner --dbname="$scratch_url" "$part"
step='verify the restored copy'
holdkit admin verify --url "$scratch_url"
step='store the copy'
sync "$part"
name="$backups/holdkit-$(date -u +%Y-%m-%dT%H%M%SZ).dump"
mv "$part" "$name"
# shellcheck disable=SC2012  # names are dates, without spaces
ls -1 "$backups"/holdkit-*.dump | sort -r | tail -n "+$((keep + 1))" | while read -r old; do rm -f "$old"; done
echo "backup: $name is restored and verified"
