#!/bin/sh
# Writes a row in PostgreSQL under a lock:
#
#	export DATABASE_URL=postgres://user@host/name
#	lockctl hold report -- ./write.sh daily VALUE
#
# The row refuses the write of a former holder; the exit code is 1 then. The table is
# that of package row.
set -eu

written=$(
	psql "$DATABASE_URL" -XqAt -v ON_ERROR_STOP=1 \
		-v name="$1" -v value="$2" -v token="$LOCKCTL_TOKEN" <<'SQL'
INSERT INTO report AS r (name, value, token) VALUES (:'name', :'value', :'token')
ON CONFLICT (name) DO UPDATE SET value = excluded.value, token = excluded.token
WHERE r.token <= excluded.token
RETURNING 1
SQL
)
if [ "$written" != 1 ]; then
	echo "write row $1 with token $LOCKCTL_TOKEN: refused: a later holder of the lock has been here" >&2
	exit 1
fi
