#!/bin/sh
# Installs what the tests need and finds missing, from Debian's packages:
# ZooKeeper's jars, a Java runtime, Chromium, PostgreSQL, MariaDB, Redis, Node, peers to test against. Needs root
# for that; as another user it only says what is missing. Then, from npm, into the
# user's cache directory: dynalite, which speaks DynamoDB's protocol.
set -eu

missing=
need() { # need PACKAGE TEST…: the package, if the test fails
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}

has_jar() { ls /usr/share/java/"$1"*.jar; }
has_postgres() { ls /usr/lib/postgresql/*/bin/initdb; }
kazoo() { python3 -c 'import kazoo' || /usr/bin/python3 -c 'import kazoo'; }

need zookeeper has_jar zookeeper
need default-jre-headless command -v java
need chromium command -v chromium
need postgresql has_postgres
need mariadb-server test -x /usr/sbin/mariadbd
need redis-server command -v redis-server
need nodejs command -v node
need npm command -v npm
need etcd-client command -v etcdctl
need python3-kazoo kazoo
need libcurator-recipes-java has_jar curator-recipes

debian() {
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "missing for the tests:$missing (tests that need them are skipped)" >&2
		return 0
	fi
	echo "installing:$missing" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# The names are separate words.
	# shellcheck disable=SC2086
	apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

dynalite=4.0.0
npm_dir="${XDG_CACHE_HOME:-$HOME/.cache}/lockctl/npm" # internal/dynaserver looks there

has_dynalite() { grep -q "\"version\": \"$dynalite\"" "$npm_dir/node_modules/dynalite/package.json"; }

npm_packages() {
	! has_dynalite 2>/dev/null || return 0
	if ! command -v npm >/dev/null; then
		echo "missing for the tests: dynalite, since there is no npm (tests that need it are skipped)" >&2
		return 0
	fi
	echo "installing: dynalite $dynalite" >&2
	mkdir -p "$npm_dir"
	npm install --prefix "$npm_dir" --no-audit --no-fund --loglevel error "dynalite@$dynalite" >/dev/null
}

debian
npm_packages
