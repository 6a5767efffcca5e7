#!/bin/sh
# Starts and stops the clusters of this directory: cluster.sh up | down | ps | logs.
# Works with "docker compose" and with docker-compose 1.29. Image names come from the
# environment: ETCD_IMAGE, ZOOKEEPER_IMAGE, LOCKCTL_IMAGE. Where no registry can be
# reached, images.sh makes images of those names.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

compose() {
	if docker compose version >/dev/null 2>&1; then
		set -- docker compose --project-name lockctl "$@"
	elif command -v docker-compose >/dev/null; then
		set -- docker-compose --project-name lockctl "$@"
	else
		echo "cluster.sh: neither docker compose nor docker-compose is installed" >&2
		exit 1
	fi
	COMPOSE_FILE="$here/etcd.yml:$here/zookeeper.yml:$here/console.yml" "$@"
}

console_image() {
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	(cd "$here/.." && CGO_ENABLED=0 go build -o "$dir/lockctl" ./cmd/lockctl)
	docker build --quiet --tag "${LOCKCTL_IMAGE:-lockctl:dev}" --file "$here/Dockerfile" "$dir" >/dev/null
}

# healthy waits until every member says that it is. "up --wait" is not in 1.29.
healthy() {
	for _ in $(seq 120); do
		sick=
		for id in $(compose ps --quiet etcd1 etcd2 etcd3 zk1 zk2 zk3); do
			state=$(docker inspect --format '{{.State.Health.Status}}' "$id")
			[ "$state" = healthy ] || sick=$id
		done
		[ -n "$sick" ] || return 0
		sleep 1
	done
	compose ps >&2
	echo "cluster.sh: not all members became healthy" >&2
	return 1
}

case ${1:-} in
up)
	console_image
	compose up -d
	healthy
	echo "etcd:      etcd://127.0.0.1:${ETCD1_PORT:-12379},127.0.0.1:${ETCD2_PORT:-22379},127.0.0.1:${ETCD3_PORT:-32379}"
	echo "ZooKeeper: zk://127.0.0.1:${ZK1_PORT:-12181},127.0.0.1:${ZK2_PORT:-22181},127.0.0.1:${ZK3_PORT:-32181}"
	echo "console:   http://127.0.0.1:${CONSOLE_PORT:-8700}/"
	;;
down) compose down --volumes --remove-orphans ;;
ps) compose ps ;;
logs) compose logs ;;
*)
	echo "usage: cluster.sh up | down | ps | logs" >&2
	exit 2
	;;
esac
