//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/freeport"
	"github.com/lockctl/lockctl/internal/zkserver"
)

// zkConfig has sessions from 400 ms on, and followers that give a leader up after
// two seconds without a word.
const zkConfig = `tickTime=200
initLimit=50
syncLimit=10
maxSessionTimeout=60000
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
dataDir=%s
`

// zkMember is where a server listens.
type zkMember struct{ dir, client, quorum, election string }

type zkEngine struct {
	classPath string
	members   []zkMember

	mu       sync.Mutex
	sessions map[string]greeting // by ID
}

func newZooKeeper(c *Cluster) (engine, error) {
	classPath, err := zkserver.FindClassPath()
	if err != nil {
		return nil, err
	}
	z := &zkEngine{classPath: classPath, sessions: map[string]greeting{}}
	for i := range Size {
		m := zkMember{dir: c.members[i].dir}
		for _, addr := range []*string{&m.client, &m.quorum, &m.election} {
			if *addr, err = freeport.Addr(); err != nil {
				return nil, err
			}
		}
		z.members = append(z.members, m)
		if err := c.Network.addClients(m.client); err != nil {
			return nil, err
		}
	}
	for _, links := range c.Network.clients {
		for _, link := range links {
			z.listen(link)
		}
	}
	if err := z.connect(c.Network); err != nil {
		return nil, err
	}
	for i, m := range z.members {
		if err := z.configure(i, m, c.Network); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// connect makes the links between servers: for the quorum and for elections.
func (z *zkEngine) connect(n *Network) error {
	for from := range Size {
		for to, m := range z.members {
			if from == to {
				continue
			}
			for _, addr := range []string{m.quorum, m.election} {
				link, err := faultlink.New(addr)
				if err != nil {
					return err
				}
				n.peers[from][to] = append(n.peers[from][to], link)
			}
		}
	}
	for from, m := range z.members {
		for to := range Size {
			if from == to {
				continue
			}
			// A server begins with its own address for elections, to which it wants to
			// be called back. Addresses have the same length.
			own, seen := []byte(m.election), []byte(n.peers[to][from][1].Addr())
			n.peers[from][to][1].Rewrite(func(first []byte) []byte { return bytes.Replace(first, own, seen, 1) })
		}
	}
	return nil
}

// configure writes a server's file, in which the others are where its links are.
func (z *zkEngine) configure(i int, m zkMember, n *Network) error {
	var text strings.Builder
	fmt.Fprintf(&text, zkConfig, m.dir)
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	for j, other := range z.members {
		quorum, election := other.quorum, other.election
		if i != j {
			quorum, election = n.peers[i][j][0].Addr(), n.peers[i][j][1].Addr()
		}
		fmt.Fprintf(&text, "server.%d=127.0.0.1:%s:%s;%s\n", j+1, port(quorum), port(election), other.client)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(m.dir, "zoo.cfg"), []byte(text.String()), 0o600),
		os.WriteFile(filepath.Join(m.dir, "myid"), []byte(strconv.Itoa(i+1)), 0o600),
	)
}

func (z *zkEngine) command(i int) *exec.Cmd {
	return exec.Command("java", "-cp", z.classPath, "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dzookeeper.preAllocSize=64", // kilobytes, so that a disk that is full is noticed soon
		"-Dzookeeper.snapCount=20000", // so that there is not much between the snapshots that are kept
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(z.members[i].dir, "zoo.cfg"))
}

func (z *zkEngine) url(addrs []string) string { return "zk://" + strings.Join(addrs, ",") }

func (z *zkEngine) state(ctx context.Context, i int) (bool, error) {
	answer, err := word(ctx, z.members[i].client, "srvr")
	if err != nil {
		return false, err
	}
	_, mode, ok := strings.Cut(answer, "\nMode: ")
	if !ok {
		return false, errors.New("it has no quorum")
	}
	return strings.HasPrefix(mode, "leader"), nil
}

func (z *zkEngine) version(ctx context.Context, i int) (string, error) {
	answer, err := word(ctx, z.members[i].client, "srvr")
	if err != nil {
		return "", err
	}
	_, version, ok := strings.Cut(answer, "Zookeeper version: ")
	if !ok {
		return "", fmt.Errorf("it does not tell its version: %.100q", answer)
	}
	version, _, _ = strings.Cut(version, "-") // what follows is the build
	return "ZooKeeper " + version, nil
}

// word sends one of ZooKeeper's four letter words.
func word(ctx context.Context, addr, letters string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, letters); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// kept is how many snapshots, and what came after, a member keeps: the fewest that the
// tool allows.
const kept = "3"

// tidy has ZooKeeper's own tool do what the servers do once an hour at the most.
func (z *zkEngine) tidy(ctx context.Context, i int, most int64) error {
	dir := z.members[i].dir
	files, err := os.ReadDir(filepath.Join(dir, "version-2"))
	if err != nil {
		return err
	}
	size := int64(0)
	for _, f := range files {
		if info, err := f.Info(); err == nil { // else it is gone already
			size += info.Size()
		}
	}
	if size <= most {
		return nil
	}
	said, err := exec.CommandContext(ctx, "java", "-cp", z.classPath, "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"org.apache.zookeeper.server.PurgeTxnLog", dir, "-n", kept).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove old snapshots of member %d: %w: %s", i+1, err, said)
	}
	return nil
}

func (z *zkEngine) compact(context.Context) error { return ErrNotHere }

// left: everything that is bound to a session, and items.
func (z *zkEngine) left(ctx context.Context, root string) ([]string, error) {
	var addrs []string
	for _, m := range z.members {
		addrs = append(addrs, m.client)
	}
	conn, events, err := gozk.Connect(addrs, 10*time.Second, gozk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	defer func() {
		conn.Close()
		for range events { // until the library has ended
			continue
		}
	}()
	defer context.AfterFunc(ctx, conn.Close)()
	if _, err := conn.Sync("/"); err != nil {
		return nil, err
	}
	return leftBelow(conn, root, root)
}

func leftBelow(conn *gozk.Conn, root, path string) ([]string, error) {
	children, stat, err := conn.Children(path)
	if errors.Is(err, gozk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var left []string
	const container = -1 << 63 // the owner of nodes that the server removes when they are empty
	if stat.EphemeralOwner != 0 && stat.EphemeralOwner != container {
		left = append(left, path)
	}
	for _, name := range children {
		child := path + "/" + name
		if strings.HasPrefix(child, root+"/item/") && strings.Contains(name, "-value-") {
			left = append(left, child)
		}
		below, err := leftBelow(conn, root, child)
		if err != nil {
			return nil, err
		}
		left = append(left, below...)
	}
	return left, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// A greeting is what a server says first: the session and its password.
type greeting struct {
	session  int64
	password []byte
}

// listen learns the sessions' passwords, with which they can be ended.
func (z *zkEngine) listen(link *faultlink.Link) {
	heads := map[int][]byte{} // of the replies of connections; nil once it was read
	link.Observe(func(conn int, dir faultlink.Direction, data []byte) {
		if dir != faultlink.Replies {
			return
		}
		head, known := heads[conn]
		if known && head == nil {
			return
		}
		head = append(head, data...)
		heads[conn] = head
		const fixed = 4 + 4 + 4 + 8 + 4 // length, protocol, timeout, session, length of the password
		if len(head) < fixed {
			return
		}
		size := int(binary.BigEndian.Uint32(head[20:]))
		if size > 16 {
			heads[conn] = nil // not a greeting
			return
		}
		if len(head) < fixed+size {
			return
		}
		heads[conn] = nil
		g := greeting{session: int64(binary.BigEndian.Uint64(head[12:])), password: bytes.Clone(head[fixed : fixed+size])}
		z.mu.Lock()
		defer z.mu.Unlock()
		z.sessions[fmt.Sprintf("0x%x", uint64(g.session))] = g
	})
}

// expire opens the same session a second time and closes it.
func (z *zkEngine) expire(ctx context.Context, session string) error {
	z.mu.Lock()
	g, ok := z.sessions[session]
	z.mu.Unlock()
	if !ok {
		return fmt.Errorf("session %s was not seen", session)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", z.members[0].client)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	connect := binary.BigEndian.AppendUint32(nil, 0)      // protocol
	connect = binary.BigEndian.AppendUint64(connect, 0)   // last zxid seen
	connect = binary.BigEndian.AppendUint32(connect, 4e3) // timeout
	connect = binary.BigEndian.AppendUint64(connect, uint64(g.session))
	connect = binary.BigEndian.AppendUint32(connect, uint32(len(g.password)))
	connect = append(connect, g.password...)
	if err := send(conn, connect); err != nil {
		return err
	}
	answer, err := receive(conn)
	if err != nil {
		return err
	}
	if len(answer) < 16 || int64(binary.BigEndian.Uint64(answer[8:])) != g.session {
		return fmt.Errorf("session %s is over already", session)
	}
	const closeSession = -11
	bye := binary.BigEndian.AppendUint32(nil, 1)
	if err := send(conn, binary.BigEndian.AppendUint32(bye, uint32(0x100000000+closeSession))); err != nil {
		return err
	}
	_, err = receive(conn)
	return err
}

func send(conn io.Writer, packet []byte) error {
	_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...))
	return err
}

func receive(conn io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > 1<<20 {
		return nil, fmt.Errorf("a packet of %d bytes", size)
	}
	packet := make([]byte, size)
	_, err := io.ReadFull(conn, packet)
	return packet, err
}

func (z *zkEngine) close() error { return nil }
