//go:build linux

package cluster

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lockctl/lockctl/internal/faultlink"
)

// A Network is the paths between members, and between clients and members. Its
// methods may be called at the same time.
type Network struct {
	peers   [][][]*faultlink.Link // from the member that connects to the one that is connected to
	clients [][]*faultlink.Link   // from the client to the member

	wg    sync.WaitGroup
	doors []net.Listener
}

func newNetwork(members, clients int) *Network {
	n := &Network{peers: make([][][]*faultlink.Link, members), clients: make([][]*faultlink.Link, clients)}
	for i := range n.peers {
		n.peers[i] = make([][]*faultlink.Link, members)
	}
	return n
}

// addClients makes links from each client to a member, in the order of members.
func (n *Network) addClients(member string) error {
	for c := range n.clients {
		link, err := faultlink.New(member)
		if err != nil {
			return err
		}
		n.clients[c] = append(n.clients[c], link)
	}
	return nil
}

// Client are the addresses of all members for one client.
func (n *Network) Client(c int) []string {
	var addrs []string
	for _, link := range n.clients[c] {
		addrs = append(addrs, link.Addr())
	}
	return addrs
}

// door accepts connections to a member and gives each to the link of the member
// that it comes from.
func (n *Network) door(listener net.Listener, from func(net.Conn) (int, bool), to int) {
	n.doors = append(n.doors, listener)
	n.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if i, ok := from(conn); ok && i != to {
				n.peers[i][to][0].Serve(conn)
			} else {
				_ = conn.Close() // of a process that has just died
			}
		}
	})
}

// A Path is all links of one kind of traffic.
type Path []*faultlink.Link

// Peers are the links between members a and b, whoever connected.
func (n *Network) Peers(a, b int) Path {
	return slices.Concat(n.peers[a][b], n.peers[b][a])
}

// AllPeers are all links between members.
func (n *Network) AllPeers() Path {
	var all Path
	for _, from := range n.peers {
		all = append(all, slices.Concat(from...)...)
	}
	return all
}

// OfClient are the links of one client.
func (n *Network) OfClient(c int) Path { return n.clients[c] }

// AllClients are the links of all clients.
func (n *Network) AllClients() Path { return slices.Concat(n.clients...) }

// ToMember are the links of all clients to one member.
func (n *Network) ToMember(m int) Path {
	var links Path
	for _, client := range n.clients {
		links = append(links, client[m])
	}
	return links
}

// Stall stops all traffic on the path.
func (p Path) Stall(dir faultlink.Direction) {
	for _, link := range p {
		link.Stall(dir)
	}
}

// Release ends stalls in the given directions.
func (p Path) Release(dir faultlink.Direction) {
	for _, link := range p {
		link.Release(dir)
	}
}

// Delay slows the path down.
func (p Path) Delay(delay, jitter time.Duration) {
	for _, link := range p {
		link.Delay(delay, jitter)
	}
}

// Reset resets all connections of the path.
func (p Path) Reset() {
	for _, link := range p {
		link.Reset()
	}
}

// Lose loses the next reply on each link of the path, and what follows it for so long.
func (p Path) Lose(d time.Duration) {
	for _, link := range p {
		link.Lose(d)
	}
}

// Silence stops what member a sends to member b, and not what b sends to a.
func (n *Network) Silence(a, b int) {
	Path(n.peers[a][b]).Stall(faultlink.Requests)
	Path(n.peers[b][a]).Stall(faultlink.Replies)
}

// Heal ends all faults of all paths. What was stalled is delivered, as by a network
// that sends again what was not acknowledged.
func (n *Network) Heal() {
	for _, link := range slices.Concat(n.AllPeers(), n.AllClients()) {
		link.Delay(0, 0)
		link.Lose(0)
		link.Resume()
	}
}

func (n *Network) close() {
	for _, door := range n.doors {
		_ = door.Close() // it was open
	}
	n.wg.Wait()
	for _, link := range slices.Concat(n.AllPeers(), n.AllClients()) {
		link.Close()
	}
}

// listen is a listener on a port of the loopback interface.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for members: %w", err)
	}
	return l, nil
}
