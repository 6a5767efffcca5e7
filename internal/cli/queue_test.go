package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
)

// TestManyDeadLetters removes more dead letters than a slow service does in the time
// for one.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client, err := etcd.Dial(t.Context(), "etcd://"+server.Addr(), nil)
	require.NoError(t, err)
	defer client.Close()
	q, err := recipes.NewQueue[int](client, "jobs", &recipes.QueueOptions{MaxAttempts: 1})
	require.NoError(t, err)
	const delay = 300 * time.Millisecond
	args := []string{"queue", "rm", "jobs"}
	for i := range int(answerTimeout/(2*delay)) + 1 { // each takes a round trip at least
		id, err := q.Put(t.Context(), i, &recipes.PutOptions{ID: fmt.Sprint("item-", i)})
		require.NoError(t, err)
		item, err := q.Take(t.Context())
		require.NoError(t, err)
		require.NoError(t, item.Return(t.Context(), 0))
		args = append(args, id)
	}
	dead, err := q.DeadLetters(t.Context())
	require.NoError(t, err)
	require.Len(t, dead, len(args)-3)

	link, err := faultlink.New(server.Addr())
	require.NoError(t, err)
	defer link.Close()
	link.Delay(delay, 0)
	code, _, errs := run(t, []string{"LOCKCTL_BACKEND=etcd://" + link.Addr()}, args...)
	require.Zero(t, code, errs)
	dead, err = q.DeadLetters(t.Context())
	require.NoError(t, err)
	require.Empty(t, dead)
}
