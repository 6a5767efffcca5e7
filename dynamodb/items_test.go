package dynamodb_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsdb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/dynamodb"
	"github.com/lockctl/lockctl/internal/dynaserver"
	"github.com/lockctl/lockctl/recipes"
)

type attributes = map[string]types.AttributeValue

// direct is AWS's client of the server. Its table is "locks".
func direct(t testing.TB, addr string) *awsdb.Client {
	t.Helper()
	settings, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"),
		config.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	if err != nil { // a bundle of certificates is configured, which that client does not take
		t.Setenv("AWS_CA_BUNDLE", "")
		settings, err = config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"),
			config.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	}
	require.NoError(t, err)
	return awsdb.NewFromConfig(settings, func(o *awsdb.Options) { o.BaseEndpoint = aws.String("http://" + addr) })
}

func dial(t testing.TB, url string) *recipes.LeaseClient {
	t.Helper()
	c, err := dynamodb.Dial(t.Context(), url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func mutex(t testing.TB, c *recipes.LeaseClient, name string) *recipes.LeaseMutex {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	return m
}

func lock(t testing.TB, c *recipes.LeaseClient, name string) *recipes.Hold {
	t.Helper()
	h, err := mutex(t, c, name).Lock(within(t))
	require.NoError(t, err)
	return h
}

func get(t testing.TB, client *awsdb.Client, name string) attributes {
	t.Helper()
	out, err := client.GetItem(within(t), &awsdb.GetItemInput{
		TableName: aws.String("locks"), Key: attributes{"key": text(name)}, ConsistentRead: aws.Bool(true),
	})
	require.NoError(t, err)
	return out.Item
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// foreign is an item as the AWS lock client writes it.
func foreign(name, version string, more attributes) *awsdb.PutItemInput {
	item := attributes{"key": text(name), "ownerName": text("java"), "leaseDuration": text("1000"), "recordVersionNumber": text(version)}
	for name, value := range more {
		item[name] = value
	}
	return &awsdb.PutItemInput{TableName: aws.String("locks"), Item: item}
}

// TestItem looks at what is stored of a lock that is held, and of one that was released.
func TestItem(t *testing.T) {
	server := dynaserver.Start(t)
	c, client := dial(t, url(server.Addr())+"&ttl=7s"), direct(t, server.Addr())
	h := lock(t, c, "item")
	item := get(t, client, "item")
	require.Equal(t, text(h.SessionID()), item["ownerName"])
	require.Equal(t, text("7000"), item["leaseDuration"])
	require.IsType(t, &types.AttributeValueMemberS{}, item["recordVersionNumber"])
	require.IsType(t, &types.AttributeValueMemberB{}, item["data"])
	require.NotContains(t, item, "isReleased")
	require.Len(t, item, 6)
	require.NoError(t, h.Unlock(within(t)))
	after := get(t, client, "item")
	require.Equal(t, text("1"), after["isReleased"])
	require.Equal(t, item["fencingToken"], after["fencingToken"])
	require.NotEqual(t, item["recordVersionNumber"], after["recordVersionNumber"])
	require.NotContains(t, after, "data")
}

// TestForeignHolder has another library hold the lock: it is not taken as long as its version
// changes, nor before that has stood still for the holder's lease.
func TestForeignHolder(t *testing.T) {
	server := dynaserver.Start(t)
	c, client := dial(t, url(server.Addr())+"&poll=20ms"), direct(t, server.Addr())
	_, err := client.PutItem(within(t), foreign("foreign", "1", nil))
	require.NoError(t, err)
	m := mutex(t, c, "foreign")
	_, err = m.TryLock(within(t))
	require.ErrorIs(t, err, recipes.ErrHeld)
	got := make(chan time.Time, 1)
	go func() {
		if h, err := m.Lock(within(t)); err == nil {
			got <- time.Now()
			_ = h.Unlock(within(t)) // ends with the client otherwise
		}
	}()
	var last time.Time
	for version := range 15 { // for longer than the lease
		last = time.Now()
		_, err := client.PutItem(within(t), foreign("foreign", strings.Repeat("v", version+1), nil))
		require.NoError(t, err)
		select {
		case <-got:
			t.Fatal("a lock was taken whose holder renews it")
		case <-time.After(100 * time.Millisecond): // between renewals
		}
	}
	require.GreaterOrEqual(t, (<-got).Sub(last), time.Second)
}

// TestForeignRelease has another library release the lock in its two ways. Tokens go on
// growing, also when it has dropped the last one.
func TestForeignRelease(t *testing.T) {
	server := dynaserver.Start(t)
	c, client := dial(t, url(server.Addr())), direct(t, server.Addr())
	first := lock(t, c, "released")
	require.NoError(t, first.Unlock(within(t)))
	_, err := client.PutItem(within(t), foreign("released", "1", attributes{"isReleased": text("1")}))
	require.NoError(t, err)
	second := lock(t, c, "released")
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Unlock(within(t)))
	_, err = client.DeleteItem(within(t), &awsdb.DeleteItemInput{TableName: aws.String("locks"), Key: attributes{"key": text("released")}})
	require.NoError(t, err)
	third := lock(t, c, "released")
	require.Greater(t, third.Token(), second.Token())
	require.NoError(t, third.Unlock(within(t)))
}

// TestForeignTakeover has another library try to take over a lock by a version that it has
// seen: not after a renewal; and once it has, the holder hears of it.
func TestForeignTakeover(t *testing.T) {
	server := dynaserver.Start(t)
	c, client := dial(t, url(server.Addr())+"&ttl=2s"), direct(t, server.Addr())
	h := lock(t, c, "takeover")
	takeOver := func(version types.AttributeValue) error {
		in := foreign("takeover", "mine", nil)
		in.ConditionExpression = aws.String("recordVersionNumber = :seen")
		in.ExpressionAttributeValues = attributes{":seen": version}
		_, err := client.PutItem(within(t), in)
		return err
	}
	seen := get(t, client, "takeover")["recordVersionNumber"]
	before := h.Deadline()
	require.Eventually(t, func() bool { return h.Deadline().After(before) }, patience, 5*time.Millisecond)
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(t, takeOver(seen), &refused)
	require.NoError(t, h.Context().Err())

	_, err := client.PutItem(within(t), foreign("takeover", "mine", nil))
	require.NoError(t, err)
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder was not told")
	}
	require.ErrorIs(t, h.Unlock(within(t)), recipes.ErrLost)
	require.Equal(t, text("mine"), get(t, client, "takeover")["recordVersionNumber"])
}

// TestLeaseWithUnit has another library, such as dynamolock, write for how long its lease is
// with a unit: it is respected for that long, and not for good.
func TestLeaseWithUnit(t *testing.T) {
	server := dynaserver.Start(t)
	c, client := dial(t, url(server.Addr())+"&poll=20ms"), direct(t, server.Addr())
	for name, lease := range map[string]string{"seconds": "1.5s", "milliseconds": "1500"} {
		start := time.Now()
		_, err := client.PutItem(within(t), foreign(name, "1", attributes{"leaseDuration": text(lease)}))
		require.NoError(t, err)
		require.NoError(t, lock(t, c, name).Unlock(within(t)))
		require.GreaterOrEqual(t, time.Since(start), 1500*time.Millisecond, lease)
	}
	for _, lease := range []string{"", "0", "-1s", "soon"} {
		_, err := client.PutItem(within(t), foreign("unknown", "1", attributes{"leaseDuration": text(lease)}))
		require.NoError(t, err)
		_, err = mutex(t, c, "unknown").TryLock(within(t))
		require.ErrorIs(t, err, recipes.ErrHeld, lease)
	}
}

// TestTryLockFindsTheDead has TryLock alone, called from time to time, take over a lock
// whose holder has died.
func TestTryLockFindsTheDead(t *testing.T) {
	server := dynaserver.Start(t)
	c, client := dial(t, url(server.Addr())), direct(t, server.Addr())
	start := time.Now()
	_, err := client.PutItem(within(t), foreign("dead", "1", nil))
	require.NoError(t, err)
	m := mutex(t, c, "dead")
	require.Eventually(t, func() bool {
		h, err := m.TryLock(within(t))
		if err != nil {
			return false
		}
		require.NoError(t, h.Unlock(within(t)))
		return true
	}, patience, 20*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(start), time.Second)
}

// A front stands before a server, counts what is asked of it, and can refuse it.
type front struct {
	addr string

	mu       sync.Mutex
	counts   map[string]int // by operation
	throttle int            // so many requests are refused
}

func newFront(t testing.TB, server *dynaserver.Server) *front {
	t.Helper()
	target, err := neturl.Parse("http://" + server.Addr())
	require.NoError(t, err)
	f := &front{counts: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	proxy.Transport = transport
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		f.mu.Lock()
		f.counts[operation]++
		refuse := f.throttle > 0
		f.throttle--
		f.mu.Unlock()
		if refuse {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"too much"}`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		transport.CloseIdleConnections()
	})
	f.addr = s.Listener.Addr().String()
	return f
}

func (f *front) reset(throttle int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.counts)
	f.throttle = throttle
}

func (f *front) count() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for operation, n := range f.counts {
		counts[operation] = n
	}
	return counts
}

// TestCost counts requests: of a lock and its release, of attempts that find it held, and of
// many who wait in one process.
func TestCost(t *testing.T) {
	server := dynaserver.Start(t)
	f := newFront(t, server)
	c, other := dial(t, url(f.addr)), dial(t, url(server.Addr()))
	f.reset(0)
	require.NoError(t, lock(t, c, "cost").Unlock(within(t)))
	require.Equal(t, map[string]int{"UpdateItem": 2}, f.count())

	h := lock(t, other, "cost")
	m := mutex(t, c, "cost")
	_, err := m.TryLock(within(t)) // finds out
	require.ErrorIs(t, err, recipes.ErrHeld)
	f.reset(0)
	for range 3 {
		_, err := m.TryLock(within(t))
		require.ErrorIs(t, err, recipes.ErrHeld)
	}
	require.Equal(t, map[string]int{"GetItem": 3}, f.count())
	require.NoError(t, h.Unlock(within(t)))
}

// TestThrottled has the service refuse requests: briefly, which nobody notices; and for as
// long as TryLock tries, which is no sign that the lock is held.
func TestThrottled(t *testing.T) {
	server := dynaserver.Start(t)
	f := newFront(t, server)
	c := dial(t, url(f.addr)+"&ttl=8s")
	m := mutex(t, c, "throttled")
	f.reset(2)
	h, err := m.TryLock(within(t))
	require.NoError(t, err)
	require.Equal(t, 3, f.count()["UpdateItem"])
	f.reset(2)
	require.NoError(t, h.Unlock(within(t)))

	f.reset(1_000_000)
	_, err = m.TryLock(within(t))
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.NotErrorIs(t, err, recipes.ErrHeld)
	got := make(chan error, 1)
	go func() {
		got <- m.Do(within(t), func(context.Context, *recipes.Hold) error { return nil })
	}()
	require.Eventually(t, func() bool { return f.count()["UpdateItem"] > 5 }, patience, 5*time.Millisecond)
	f.reset(0)
	require.NoError(t, <-got)
}

func TestInvalid(t *testing.T) {
	server := dynaserver.Start(t)
	for _, bad := range []string{
		"", "dynamodb:", "dynamodb:///locks", "redis://us-east-1/locks", "dynamodb://u:p@us-east-1/locks", "dynamodb://us-east-1/a",
		"dynamodb://us-east-1/lo cks", "dynamodb://us-east-1/locks?ttl=0s", "dynamodb://us-east-1/locks?x=1", "dynamodb://us-east-1/locks?ttl=1ms",
		"dynamodb://us-east-1/locks#a",
	} {
		_, err := dynamodb.Dial(t.Context(), bad, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, bad)
	}
	_, err := dynamodb.Open(nil, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	short := &dynamodb.Options{Lease: recipes.LeaseOptions{Client: recipes.ClientOptions{ConnectTimeout: time.Second}}}
	_, err = dynamodb.Dial(t.Context(), url("127.0.0.1:1"), short)
	require.ErrorIs(t, err, recipes.ErrUnavailable)

	client := direct(t, server.Addr())
	c, err := dynamodb.Open(client, &dynamodb.Options{Table: "missing"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = mutex(t, c, "a").Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrInvalid)
	require.ErrorContains(t, err, "Migrate")
	require.NoError(t, dynamodb.Migrate(within(t), client, &dynamodb.Options{Table: "missing"}))
	require.NoError(t, dynamodb.Migrate(within(t), client, &dynamodb.Options{Table: "missing"}))
	require.NoError(t, lock(t, c, "a").Unlock(within(t)))
}
