package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

var (
	// ErrNotHeld says that the hold is over, so nothing was written.
	ErrNotHeld = errors.New("refused: the lock is not held any more")
	// ErrStale says that a later holder of the lock has been there, so nothing was
	// written. Whoever gets it has lost the lock.
	ErrStale = errors.New("refused: a later holder of the lock has been here")
)

// WriteHeld writes a znode on the condition that the hold is not over. It is for
// znodes in the ZooKeeper that the lock is kept in.
//
// The version is that of the data as it was read under the lock, or -1 for any. It
// tells of writes by others who did not ask for the lock: the error then is
// gozk.ErrBadVersion.
func WriteHeld(conn *gozk.Conn, hold *recipes.Hold, path, value string, version int32) error {
	guard, err := zk.Guard(hold)
	if err != nil {
		return err
	}
	answers, err := conn.Multi(guard, &gozk.SetDataRequest{Path: path, Data: []byte(value), Version: version})
	if len(answers) > 0 && errors.Is(answers[0].Error, gozk.ErrNoNode) { // the guard's
		err = ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("write znode %s: %w", path, err)
	}
	return nil
}

// Write writes a znode unless a later holder has been there: its token is stored
// before the value. The lock can be kept anywhere.
func Write(conn *gozk.Conn, token uint64, path, value string) error {
	_, err := fenced(conn, token, path, func(string) string { return value })
	if err != nil {
		return fmt.Errorf("write znode %s with token %d: %w", path, token, err)
	}
	return nil
}

// Read reads a znode's value. From then on all earlier holders are refused, although
// nothing was changed yet: what was read stays true until the reader, or a later
// holder, writes.
func Read(conn *gozk.Conn, token uint64, path string) (string, error) {
	value, err := fenced(conn, token, path, func(old string) string { return old })
	if err != nil {
		return "", fmt.Errorf("read znode %s with token %d: %w", path, token, err)
	}
	return value, nil
}

// fenced replaces the value and stores the token, unless a larger one is stored. The
// write is on condition that nobody has written since the token was read.
//
// The znode must exist, and must not be deleted: it would forget the token, and its
// version would begin anew.
func fenced(conn *gozk.Conn, token uint64, path string, change func(old string) string) (string, error) {
	for {
		data, stat, err := conn.Get(path)
		if err != nil {
			return "", err
		}
		seen, old, err := decode(data)
		if err != nil {
			return "", err
		}
		if seen > token {
			return "", ErrStale
		}
		value := change(old)
		_, err = conn.Set(path, encode(token, value), stat.Version)
		if !errors.Is(err, gozk.ErrBadVersion) {
			return value, err
		}
		if _, err := conn.Sync(path); err != nil { // the server may have been behind
			return "", err
		}
	}
}

// encode is a token and a value as they are stored.
func encode(token uint64, value string) []byte { return fmt.Appendf(nil, "%d\n%s", token, value) }

// decode is the opposite of encode. A new node is empty.
func decode(data []byte) (token uint64, value string, err error) {
	if len(data) == 0 {
		return 0, "", nil
	}
	first, value, _ := strings.Cut(string(data), "\n")
	token, err = strconv.ParseUint(first, 10, 63)
	if err != nil {
		return 0, "", fmt.Errorf("does not begin with a token: %w", err)
	}
	return token, value, nil
}
