package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	defaultTable   = "distributed_locks"
	migrateTimeout = time.Minute // for a table to be made, which takes seconds
	attempts       = 5           // of a request that is throttled or fails, within its context
	longestBackoff = time.Second // between them
	idleConns      = 16
)

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	// Table is the table of the locks. Defaults to "distributed_locks".
	Table string
	// Lease has the options that all clients of leases share.
	Lease recipes.LeaseOptions
}

// isTableName follows DynamoDB's rules.
func isTableName(name string) bool {
	return len(name) >= 3 && len(name) <= 255 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Table == "" {
		opts.Table = defaultTable
	}
	if !isTableName(opts.Table) {
		return opts, &recipes.InvalidError{Field: "Options.Table", Problem: fmt.Sprintf(
			"%q is not a name of 3 to 255 letters, digits, underscores, points and dashes", opts.Table)}
	}
	return opts, nil
}

// Open makes a client over one of DynamoDB that you have. It sends nothing. It returns
// ErrInvalid for options that are out of range.
func Open(client *dynamodb.Client, opts *Options) (*recipes.LeaseClient, error) {
	return open(client, opts, func() {})
}

func open(client *dynamodb.Client, opts *Options, free func()) (*recipes.LeaseClient, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, &recipes.InvalidError{Field: "client", Problem: "is nil"}
	}
	return recipes.NewLeaseClient(newStore(client, o.Table, free), &o.Lease)
}

// Migrate makes the table unless it is there, with the capacity that is paid per request,
// and returns when it can be used. To make it otherwise, give it a partition key
// called "key", of type string, and no sort key.
func Migrate(ctx context.Context, client *dynamodb.Client, opts *Options) error {
	o, err := opts.withDefaults()
	if err != nil {
		return err
	}
	describe := &dynamodb.DescribeTableInput{TableName: &o.Table}
	out, err := client.DescribeTable(ctx, describe)
	var missing *types.ResourceNotFoundException
	switch {
	case err == nil && out.Table.TableStatus == types.TableStatusActive:
		return nil
	case errors.As(err, &missing):
		err = create(ctx, client, o.Table)
	}
	if err != nil {
		return fmt.Errorf("make table %s: %w", o.Table, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(w *dynamodb.TableExistsWaiterOptions) {
		w.MinDelay, w.MaxDelay = 100*time.Millisecond, 2*time.Second
	})
	if err := waiter.Wait(ctx, describe, migrateTimeout); err != nil {
		return fmt.Errorf("wait for table %s: %w", o.Table, err)
	}
	return nil
}

func create(ctx context.Context, client *dynamodb.Client, table string) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &table,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	var exists *types.ResourceInUseException // another has just made it
	if errors.As(err, &exists) {
		return nil
	}
	return err
}

// Dial connects to DynamoDB by a URL, "dynamodb://region/table?ttl=15s", and makes the table
// unless it is there. Parameters are ttl, poll, and endpoint, the URL of a service other than
// that of the region. Credentials are found as AWS's other tools find them: in the
// environment, in files, or from the machine. Options count where they say otherwise than
// the URL.
//
// It returns ErrInvalid for a URL or options that are out of range, ErrDenied or
// ErrUnavailable.
func Dial(ctx context.Context, rawURL string, opts *Options) (*recipes.LeaseClient, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	region, endpoint, err := readURL(rawURL, &o)
	if err != nil {
		return nil, err
	}
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithHTTPClient(awshttp.NewBuildableClient()),
		config.WithLogger(logging.Nop{}), // what goes wrong is returned
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = attempts, longestBackoff })
		}))
	if err != nil {
		return nil, &recipes.InvalidError{Field: "configuration of AWS", Problem: "can't be read: " + err.Error()}
	}
	transport := &http.Transport{}
	if built, ok := settings.HTTPClient.(*awshttp.BuildableClient); ok { // with the certificates that were configured
		transport = built.GetTransport()
	}
	transport.MaxIdleConnsPerHost = idleConns
	client := dynamodb.NewFromConfig(settings, func(d *dynamodb.Options) {
		d.HTTPClient = &http.Client{Transport: transport}
		if endpoint != "" {
			d.BaseEndpoint = &endpoint
		}
	})
	leases, err := open(client, &o, transport.CloseIdleConnections)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, client, &o); err != nil {
		return nil, errors.Join(fmt.Errorf("dynamodb in %s: %w", region, err), leases.Close())
	}
	return leases, nil
}

// prepare is Migrate; where the user may not describe or make tables it looks for the
// table. Its errors are those of recipes.
func prepare(ctx context.Context, client *dynamodb.Client, o *Options) error {
	err := Migrate(ctx, client, o)
	if err == nil {
		return nil
	}
	full, invalid := o.withDefaults()
	if invalid != nil {
		return invalid
	}
	s := newStore(client, full.Table, func() {})
	if errors.Is(s.failed(err), driver.ErrDenied) {
		_, _, err = s.get(ctx, "lockctl")
	}
	switch {
	case err == nil, errors.Is(err, recipes.ErrInvalid):
		return err
	case errors.Is(err, driver.ErrDenied):
		return fmt.Errorf("%w: %w", recipes.ErrDenied, err)
	default:
		return fmt.Errorf("%w: %w", recipes.ErrUnavailable, err)
	}
}

func invalid(format string, args ...any) error {
	return &recipes.InvalidError{Field: "URL", Problem: fmt.Sprintf(format, args...)}
}

// readURL reads a URL into the options, where those don't say otherwise.
func readURL(raw string, o *Options) (region, endpoint string, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", "", invalid("can't be read")
	case u.Scheme != "dynamodb" || u.Host == "":
		return "", "", invalid("must begin with dynamodb:// and a region")
	case u.User != nil:
		return "", "", invalid("must not have a user or password: credentials are found as AWS's other tools find them")
	case u.Fragment != "":
		return "", "", invalid("must not have a fragment")
	}
	if table := strings.Trim(u.Path, "/"); o.Table == "" {
		o.Table = table
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", "", invalid("has bad parameters")
	}
	for name, v := range values {
		if known := []string{"ttl", "poll", "endpoint"}; !slices.Contains(known, name) || len(v) != 1 || v[0] == "" {
			return "", "", invalid("has a bad parameter %q: known are %s, once each, with a value", name, strings.Join(known, ", "))
		}
	}
	for name, into := range map[string]*time.Duration{"ttl": &o.Lease.TTL, "poll": &o.Lease.Poll} {
		text := values.Get(name)
		if text == "" || *into != 0 {
			continue
		}
		if *into, err = time.ParseDuration(text); err != nil || *into <= 0 {
			return "", "", invalid("has a bad %s %q: it is a duration such as 15s", name, text)
		}
	}
	return u.Host, values.Get("endpoint"), nil
}
