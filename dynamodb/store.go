package dynamodb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// A store implements driver.Leaser.
type store struct {
	client *dynamodb.Client
	table  string
	seen   sightings
	looks  *looks
	free   func() // what was opened with the store
}

var _ driver.Leaser = (*store)(nil)

func newStore(client *dynamodb.Client, table string, free func()) *store {
	return &store{client: client, table: table, seen: sightings{all: map[string]sighting{}}, looks: newLooks(), free: free}
}

func (s *store) Engine() string { return "dynamodb" }

func (s *store) Close() error {
	s.looks.close()
	s.free()
	return nil
}

// failed is the driver's error for one of the service.
func (s *store) failed(err error) error {
	var api smithy.APIError
	if err == nil || !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException":
		return fmt.Errorf("%w: there is no table %s: make it with Migrate: %w", recipes.ErrInvalid, s.table, err)
	case "ValidationException":
		return fmt.Errorf("%w: table %s: %w", recipes.ErrInvalid, s.table, err)
	case "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException",
		"IncompleteSignatureException", "InvalidClientTokenId":
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}

// A change is an update of one item, on a condition.
type change struct {
	update, condition string
	names             map[string]string
	values            attributes
}

// errCondition says that an item is not as a change demands.
var errCondition = errors.New("the condition is not met")

// update carries out a change and returns the item as it is then. If that is not as the
// condition demands, it returns errCondition and the item as it was right after that, or as
// the service told with its refusal.
func (s *store) update(ctx context.Context, name string, c change, opts ...func(*dynamodb.Options)) (item, error) {
	out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 attributes{attrKey: text(name)},
		UpdateExpression:                    &c.update,
		ConditionExpression:                 &c.condition,
		ExpressionAttributeNames:            c.names,
		ExpressionAttributeValues:           c.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, opts...)
	var refused *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		i, _ := readItem(out.Attributes)
		return i, nil
	case !errors.As(err, &refused):
		return item{}, s.failed(err)
	}
	i, ok := readItem(refused.Item)
	if !ok {
		now, err := s.looks.at(ctx, name, s.get)
		if err != nil {
			return item{}, err
		}
		i = now.item
	}
	return i, errCondition
}

// get reads an item. It reports whether there is one.
func (s *store) get(ctx context.Context, name string) (item, bool, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: attributes{attrKey: text(name)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return item{}, false, s.failed(err)
	}
	i, ok := readItem(out.Item)
	return i, ok, nil
}

// taking is the change that gives the lease to its ID, on that condition. A token is one
// more than the last; where none is known, it begins with the time, so that it is larger
// than what may have been there before another library replaced the item.
func taking(want driver.Lease, ttl time.Duration, condition string, values attributes) change {
	all := attributes{
		":owner": text(want.ID), ":lease": text(milliseconds(ttl)), ":version": text(rand.Text()),
		":data": &types.AttributeValueMemberB{Value: want.Value}, ":now": number(time.Now().UnixMicro()), ":one": number(1),
	}
	maps.Copy(all, values)
	return change{
		update: "SET " + attrOwner + " = :owner, " + attrLease + " = :lease, " + attrVersion + " = :version, #data = :data, " +
			attrToken + " = if_not_exists(" + attrToken + ", :now) + :one REMOVE " + attrReleased,
		condition: condition,
		names:     map[string]string{"#data": attrData},
		values:    all,
	}
}

// Acquire implements driver.Leaser. Where another was seen to have the lock it reads before
// it writes, since a write that is refused costs as much as one that is not.
func (s *store) Acquire(ctx context.Context, want driver.Lease, ttl time.Duration) (driver.Lease, error) {
	if !s.seen.has(want.Name) {
		return s.take(ctx, want, ttl, nil)
	}
	now, err := s.looks.at(ctx, want.Name, s.get)
	if err != nil {
		return want, err
	}
	if now.found && !now.item.released && now.item.owner != want.ID {
		if left := s.seen.left(now.item); left > 0 {
			return now.item.toLease(left), driver.ErrTaken
		}
	}
	// Of those who see the same, one tries.
	select {
	case now.turn <- struct{}{}:
		defer func() { <-now.turn }()
	case <-ctx.Done():
		return want, ctx.Err()
	}
	if now.taken != nil {
		return *now.taken, driver.ErrTaken
	}
	got, err := s.take(ctx, want, ttl, now)
	if err == nil || errors.Is(err, driver.ErrTaken) {
		now.taken = &got
	}
	return got, err
}

// take gets the lock if it is free or its lease has expired: as it was just seen, or,
// without a look, as the refusal of a first request tells.
func (s *store) take(ctx context.Context, want driver.Lease, ttl time.Duration, now *look) (driver.Lease, error) {
	if now == nil || !now.found || now.item.released {
		free := taking(want, ttl, "attribute_not_exists(#key) OR "+attrReleased+" = :released", attributes{":released": text(released)})
		free.names["#key"] = attrKey
		found, err := s.update(ctx, want.Name, free)
		if !errors.Is(err, errCondition) {
			return s.took(want, found, ttl, err)
		}
		if lease, err := s.refused(ctx, want, found, ttl); !errors.Is(err, errExpired) {
			return lease, err
		}
		now = &look{item: found}
	} else if lease, err := s.refused(ctx, want, now.item, ttl); !errors.Is(err, errExpired) {
		return lease, err
	}
	expired := taking(want, ttl, attrOwner+" = :seenOwner AND "+attrVersion+" = :seenVersion AND attribute_not_exists("+attrReleased+")",
		attributes{":seenOwner": text(now.item.owner), ":seenVersion": text(now.item.version)})
	found, err := s.update(ctx, want.Name, expired)
	if !errors.Is(err, errCondition) {
		return s.took(want, found, ttl, err)
	}
	lease, err := s.refused(ctx, want, found, ttl)
	if errors.Is(err, errExpired) {
		err = driver.ErrTaken // it was, an instant ago
	}
	return lease, err
}

// took is the outcome of a change that was not refused.
func (s *store) took(want driver.Lease, found item, ttl time.Duration, err error) (driver.Lease, error) {
	if err != nil {
		return want, err
	}
	s.seen.forget(want.Name)
	return found.toLease(ttl), nil
}

// errExpired says that a lock can be taken over.
var errExpired = errors.New("expired")

// refused is what an item means to who wants the lock: that it is theirs, by a request
// whose reply was lost; that another has it; or errExpired.
func (s *store) refused(ctx context.Context, want driver.Lease, found item, ttl time.Duration) (driver.Lease, error) {
	switch {
	case found.version == "" || found.released: // by now
		s.seen.forget(want.Name)
		return driver.Lease{Name: want.Name}, driver.ErrTaken
	case found.owner == want.ID:
		if err := s.Renew(ctx, want, ttl); errors.Is(err, driver.ErrGone) {
			return driver.Lease{Name: want.Name}, driver.ErrTaken
		} else if err != nil {
			return want, err
		}
		return found.toLease(ttl), nil
	}
	if left := s.seen.left(found); left > 0 {
		return found.toLease(left), driver.ErrTaken
	}
	return found.toLease(0), errExpired
}

// held is the condition that the owner has the lock.
const held = attrOwner + " = :owner AND attribute_not_exists(" + attrReleased + ")"

// Renew implements driver.Leaser. To repeat it after a lost reply is harmless, since the
// condition is about the owner, not about the version that the lost one may have replaced.
func (s *store) Renew(ctx context.Context, l driver.Lease, ttl time.Duration) error {
	_, err := s.update(ctx, l.Name, change{
		update:    "SET " + attrLease + " = :lease, " + attrVersion + " = :version, #data = :data",
		condition: held,
		names:     map[string]string{"#data": attrData},
		values: attributes{
			":owner": text(l.ID), ":lease": text(milliseconds(ttl)), ":version": text(rand.Text()), ":data": &types.AttributeValueMemberB{Value: l.Value},
		},
	})
	if errors.Is(err, errCondition) {
		return driver.ErrGone
	}
	return err
}

// Release implements driver.Leaser. The item stays, for its token. The AWS library does not
// repeat the request, as it does others: whoever calls Release does, and knows then what it
// means that the lease is gone.
func (s *store) Release(ctx context.Context, l driver.Lease) error {
	_, err := s.update(ctx, l.Name, change{
		update:    "SET " + attrReleased + " = :released, " + attrVersion + " = :version REMOVE #data",
		condition: held,
		names:     map[string]string{"#data": attrData},
		values:    attributes{":owner": text(l.ID), ":released": text(released), ":version": text(rand.Text())},
	}, once)
	if errors.Is(err, errCondition) {
		return driver.ErrGone
	}
	return err
}

// once has the AWS library send a request once.
func once(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }

// List implements driver.Leaser.
func (s *store) List(ctx context.Context, scope driver.Scope) ([]driver.Lease, error) {
	if !scope.Prefix {
		i, ok, err := s.get(ctx, scope.Name)
		if err != nil || !ok {
			return nil, err
		}
		return s.append(nil, i), nil
	}
	in := &dynamodb.ScanInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), FilterExpression: aws.String("attribute_not_exists(" + attrReleased + ")"),
	}
	if scope.Name != "" {
		*in.FilterExpression += " AND begins_with(#key, :prefix)"
		in.ExpressionAttributeNames = map[string]string{"#key": attrKey}
		in.ExpressionAttributeValues = attributes{":prefix": text(scope.Name)}
	}
	var leases []driver.Lease
	for pages := dynamodb.NewScanPaginator(s.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.failed(err)
		}
		for _, all := range page.Items {
			if i, ok := readItem(all); ok {
				leases = s.append(leases, i)
			}
		}
	}
	return leases, nil
}

// append adds a lock that is held, as far as it is known.
func (s *store) append(leases []driver.Lease, i item) []driver.Lease {
	if i.released {
		return leases
	}
	if left := s.seen.left(i); left > 0 {
		return append(leases, i.toLease(left))
	}
	return leases
}
