package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// tlsCredentials adds two things to the gRPC library's: the server's name that the
// configuration sets counts, which the library overrides by the address; and why
// the server has refused the connection is told, where the library may tell only
// that it was closed.
type tlsCredentials struct {
	credentials.TransportCredentials
	name string // that the certificate must have; "" for the address
	tell func(error)
}

func newTLSCredentials(config *tls.Config, tell func(error)) credentials.TransportCredentials {
	return &tlsCredentials{TransportCredentials: credentials.NewTLS(config), name: config.ServerName, tell: tell}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *tlsCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.name != "" {
		authority = c.name
	}
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return &tlsConn{Conn: conn, tell: c.tell}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *tlsCredentials) Clone() credentials.TransportCredentials {
	return &tlsCredentials{TransportCredentials: c.TransportCredentials.Clone(), name: c.name, tell: c.tell}
}

// tlsConn tells of alerts. A server that wants a certificate says so in reply to
// the end of the handshake, when the client has begun to write.
type tlsConn struct {
	net.Conn
	tell func(error)
}

func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(err)
	return n, err
}

func (c *tlsConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && c.SetReadDeadline(time.Now().Add(time.Millisecond)) == nil {
		_, why := c.Conn.Read(make([]byte, 1)) // the connection is of no more use
		c.note(why)
	}
	return n, err
}

func (c *tlsConn) note(err error) {
	var failed *net.OpError
	if errors.As(err, &failed) && failed.Op == "remote error" {
		c.tell(err)
	}
}
