// Package freeport finds ports for servers that must be told theirs before they
// start.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The range is outside of those that systems take outgoing ports from, so that no
// connection takes a port before its server does, or while that is down.
const (
	lowest  = 12000
	highest = 32000
)

const attempts = 1000

// Addr returns an address of 127.0.0.1, host:port, that nobody listens on. Another
// process can take it before it is used, which is unlikely.
func Addr() (string, error) {
	port, err := Port()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// Port returns the port of such an address.
func Port() (int, error) {
	for range attempts {
		port := lowest + rand.IntN(highest-lowest)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
