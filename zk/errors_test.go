package zk

import (
	"errors"
	"fmt"
	"testing"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// TestRefused has errors as the library makes them of what a server answers.
func TestRefused(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		gozk.ErrNoNode: true,
		at("create in", "/a", errors.New("unknown error: -125")): true, // a quota is used up
		fmt.Errorf("unknown error: %v", gozk.ErrCode(-119)):      true, // the server is read-only
		fmt.Errorf("unknown error: %v", gozk.ErrCode(-127)):      false,
		fmt.Errorf("unknown error: %v", gozk.ErrCode(-4)):        false, // connection loss
		gozk.ErrConnectionClosed:                                 false,
		gozk.ErrSessionMoved:                                     false,
		gozk.ErrUnknown:                                          false,
		nil:                                                      false,
	} {
		require.Equal(t, want, refused(err), "%v", err)
	}
}
