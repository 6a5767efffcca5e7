#!/bin/sh
# Makes images of the names that the compose files use, where no registry can be
# reached: a small Debian by debootstrap, with ZooKeeper from Debian's packages, and
# etcd built from its Go modules. Needs root, debootstrap, go and docker, and takes
# a few minutes. The images take the same settings as the official ones do, as far as
# the compose files make use of them.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
etcd_image=${ETCD_IMAGE:-quay.io/coreos/etcd:v3.7.3}
zookeeper_image=${ZOOKEEPER_IMAGE:-zookeeper:3.8}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in debootstrap go docker; do
	command -v "$tool" >/dev/null || { echo "images.sh: $tool is missing" >&2; exit 1; }
done

# etcd: the server of the version that the project is built with, and its etcdctl.
# Both are static, so that the image has nothing else.
version=$(cd "$here/.." && go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
mkdir "$work/build" "$work/etcd"
(
	cd "$work/build"
	go mod init images >/dev/null 2>&1
	cat >tools.go <<-GO
		package images

		import (
			_ "go.etcd.io/etcd/etcdctl/v3/ctlv3"
			_ "go.etcd.io/etcd/server/v3/etcdmain"
		)
	GO
	mkdir etcd etcdctl
	cat >etcd/main.go <<-GO
		package main

		import (
			"os"

			"go.etcd.io/etcd/server/v3/etcdmain"
		)

		func main() { etcdmain.Main(os.Args) }
	GO
	cat >etcdctl/main.go <<-GO
		package main

		import "go.etcd.io/etcd/etcdctl/v3/ctlv3"

		func main() { ctlv3.MustStart() }
	GO
	go get "go.etcd.io/etcd/server/v3@$version" "go.etcd.io/etcd/etcdctl/v3@$version"
	go mod tidy
	CGO_ENABLED=0 go build -o "$work/etcd/usr/local/bin/etcd" ./etcd
	CGO_ENABLED=0 go build -o "$work/etcd/usr/local/bin/etcdctl" ./etcdctl
)
mkdir -p "$work/etcd/data" "$work/etcd/tmp"
tar -C "$work/etcd" -c . | docker import \
	--change 'ENV PATH=/usr/local/bin' --change 'EXPOSE 2379 2380' \
	--change 'CMD ["/usr/local/bin/etcd"]' - "$etcd_image"

# ZooKeeper: Debian with a Java runtime and the jars. Debian's package of ZooKeeper
# depends on a lot that the server doesn't use; the jars are taken without that.
root=$work/zookeeper
debootstrap --variant=minbase --include=bash,ca-certificates "$suite" "$root" "$mirror"
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"; rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive
chroot "$root" apt-get install -y -qq --no-install-recommends default-jre-headless libsnappy1v5
chroot "$root" sh -eu -c '
	mkdir /jars && cd /jars
	apt-get download -qq libzookeeper-java libslf4j-java libsnappy-java libsnappy-jni libdropwizard-metrics-java libnetty-java
	for deb in *.deb; do dpkg-deb -x "$deb" /; done
	cd / && rm -r /jars
	apt-get clean
	rm -rf /var/lib/apt/lists'
umount "$root/proc"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/zookeeper/data" "$work/zookeeper/datalog"
cat >"$work/zookeeper/entrypoint.sh" <<'ENTRYPOINT'
#!/bin/bash
# Writes the configuration that the environment asks for, and runs the server.
set -eu
{
	echo "dataDir=/data"
	echo "dataLogDir=/datalog"
	echo "tickTime=${ZOO_TICK_TIME:-2000}"
	echo "initLimit=${ZOO_INIT_LIMIT:-5}"
	echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
	echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
	echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}"
	echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
	for server in ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181}; do
		echo "$server"
	done
} >/tmp/zoo.cfg
echo "${ZOO_MY_ID:-1}" >/data/myid
classpath=
for jar in zookeeper zookeeper-jute slf4j-api slf4j-simple snappy-java metrics-core netty-handler netty-transport \
	netty-common netty-buffer netty-codec netty-resolver netty-transport-native-epoll netty-transport-native-unix-common; do
	classpath=$classpath:/usr/share/java/$jar.jar
done
exec java -cp "$classpath" -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
	org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zoo.cfg
ENTRYPOINT
chmod 755 "$work/zookeeper/entrypoint.sh"
tar -C "$work/zookeeper" -c . | docker import \
	--change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' --change 'EXPOSE 2181 2888 3888' \
	--change 'ENTRYPOINT ["/entrypoint.sh"]' - "$zookeeper_image"
