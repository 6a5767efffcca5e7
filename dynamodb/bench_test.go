package dynamodb_test

import (
	"testing"

	"github.com/lockctl/lockctl/internal/dynaserver"
)

// BenchmarkLockUnlock measures a lock that nobody else wants, and its release, on dynalite,
// which says little of DynamoDB itself.
func BenchmarkLockUnlock(b *testing.B) {
	c := dial(b, url(dynaserver.Start(b).Addr()))
	m := mutex(b, c, "bench")
	for b.Loop() {
		h, err := m.Lock(b.Context())
		if err == nil {
			err = h.Unlock(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
