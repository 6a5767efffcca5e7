package dynamodb

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockctl/lockctl/recipes/driver"
)

// The attributes of an item. All but the last are those of the AWS lock client.
const (
	attrKey      = "key"
	attrOwner    = "ownerName"
	attrLease    = "leaseDuration" // in milliseconds, as text
	attrVersion  = "recordVersionNumber"
	attrReleased = "isReleased" // is there, as "1", when the lock is free
	attrData     = "data"
	attrToken    = "fencingToken"
)

const released = "1"

type attributes = map[string]types.AttributeValue

// An item is what is known of a lock.
type item struct {
	name, owner, version string
	lease                time.Duration // 0 if it can't be read: then it does not expire
	released             bool
	token                uint64
	data                 []byte
}

// readItem reads an item. It reports false if there is none, or no lock.
func readItem(all attributes) (item, bool) {
	text := func(name string) string {
		if s, ok := all[name].(*types.AttributeValueMemberS); ok {
			return s.Value
		}
		return ""
	}
	i := item{name: text(attrKey), owner: text(attrOwner), version: text(attrVersion)}
	if i.name == "" || i.version == "" {
		return i, false
	}
	i.lease = readLease(text(attrLease))
	_, i.released = all[attrReleased]
	if n, ok := all[attrToken].(*types.AttributeValueMemberN); ok {
		i.token, _ = strconv.ParseUint(n.Value, 10, 63) // 0 if it is not a token
	}
	if b, ok := all[attrData].(*types.AttributeValueMemberB); ok {
		i.data = b.Value
	}
	return i, true
}

// readLease reads for how long a lease is: in milliseconds, as the AWS lock client writes
// it, or with a unit, as dynamolock does. It is 0 for what can't be read.
func readLease(text string) time.Duration {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 && ms < int64(maxLease/time.Millisecond) {
		return time.Duration(ms) * time.Millisecond
	}
	if lease, err := time.ParseDuration(text); err == nil && lease > 0 && lease < maxLease {
		return lease
	}
	return 0
}

// maxLease is the longest lease that is believed in.
const maxLease = 10 * 365 * 24 * time.Hour

// toLease is the item as a lease that ends then.
func (i item) toLease(left time.Duration) driver.Lease {
	return driver.Lease{Name: i.name, ID: i.owner, Token: i.token, Value: i.data, Left: left}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// milliseconds of a TTL as text, rounded up: others wait for no less.
func milliseconds(ttl time.Duration) string {
	return strconv.FormatInt(int64((ttl+time.Millisecond-1)/time.Millisecond), 10)
}
